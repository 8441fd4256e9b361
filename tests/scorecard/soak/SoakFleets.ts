import { once } from 'node:events'
import { createServer } from 'node:net'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { builtPath } from '../../support/builtPath.js'
import { inboxWorkerCommand } from '../../support/inboxWorkerProcess.js'
import { portOf } from '../../support/portOf.js'
import type { FleetSettings, RelayScenario } from '../RelayScenario.js'
import { waitUntil } from '../waitUntil.js'
import type { WorkerFleet } from '../WorkerFleet.js'

export const PROCESS_KINDS = ['worker', 'scheduler', 'api', 'inbox'] as const
export type ProcessKind = (typeof PROCESS_KINDS)[number]

/** Processes of one kind. Processes in `lasting` are never killed, so that a leak becomes visible. */
interface Member {
  readonly killed: WorkerFleet
  readonly killedCount: number
  readonly lasting: WorkerFleet
}

export interface RunningProcess {
  readonly kind: ProcessKind
  readonly isLasting: boolean
  readonly pid: number
  readonly ageSeconds: number
}

/** Lease duration. It is short, so that the items of a killed process are soon claimed again. */
const LEASE_SECONDS = 5

interface SoakFleetsOptions {
  /** Role of the inbox handlers. */
  readonly handlerRole: string
  /** Number of workers, which are killed in turn. */
  readonly workers: number
  /** Number of processes of each kind that are never killed: 0 or 1. */
  readonly lasting: number
}

/** All processes of the soak. */
export class SoakFleets {
  /** Addresses of the API processes. Only the process of the first address is killed. */
  readonly addresses: readonly string[]
  readonly #members: Readonly<Record<ProcessKind, Member>>
  readonly #lastingCount: number
  readonly kills: Record<ProcessKind, number> = { worker: 0, scheduler: 0, api: 0, inbox: 0 }

  private constructor(members: Readonly<Record<ProcessKind, Member>>, addresses: readonly string[], lasting: number) {
    this.#members = members
    this.addresses = addresses
    this.#lastingCount = lasting
  }

  static async create(
    scenario: RelayScenario,
    { handlerRole, workers, lasting }: SoakFleetsOptions,
  ): Promise<SoakFleets> {
    const { db } = scenario
    const login = async (name: string, roles: readonly string[]) => (await db.createLogin(name, { roles })).url
    const schedulerUrl = await login('scheduler', ['symphony_executor', 'symphony_readonly'])
    const apiUrl = await login(
      'api',
      ['ingest', 'readonly', 'auditor', 'control', 'auth'].map((role) => `symphony_${role}`),
    )
    const inboxUrl = await login('inbox', ['symphony_executor', handlerRole])
    const ports = [await freePort(), await freePort()]
    const relayer = {
      words: ['--lease-seconds', String(LEASE_SECONDS), '--concurrency', '8'],
      env: { LEASE_REPAIR_INTERVAL_MS: '2000', OUTBOX_MODULE: pathToFileURL(builtPath('libs/outbox/index.js')).href },
    }
    const scheduler = {
      env: { DATABASE_URL: schedulerUrl },
      command: () => symphonyCommand('scheduler', '--no-http', '--scheduler-poll-ms', '500', '--log-level', 'warn'),
    }
    const api = (port = 0) => ({
      env: { DATABASE_URL: apiUrl },
      command: () => symphonyCommand('api', '--port', String(port), '--log-level', 'error'),
    })
    const inbox = {
      command: (workerId: string) =>
        inboxWorkerCommand({
          url: inboxUrl,
          schema: db.schema,
          handlerRole,
          workerId,
          leaseSeconds: LEASE_SECONDS,
          concurrency: 3,
        }),
    }
    const member = (name: ProcessKind, [killed, last = killed]: readonly FleetSettings[], killedCount = 1): Member => ({
      killed: scenario.fleet({ ...killed, name }),
      lasting: scenario.fleet({ ...last, name: `lasting-${name}` }),
      killedCount,
    })
    const members = {
      worker: member('worker', [relayer], workers),
      scheduler: member('scheduler', [scheduler]),
      api: member('api', [api(ports[0]), api(ports[1])]),
      inbox: member('inbox', [inbox]),
    }
    const addresses = ports.slice(0, 1 + lasting).map((port) => `http://127.0.0.1:${port}`)
    return new SoakFleets(members, addresses, lasting)
  }

  async start(): Promise<void> {
    await Promise.all(
      this.#all.map((member) =>
        Promise.all([member.killed.start(member.killedCount), member.lasting.start(this.#lastingCount)]),
      ),
    )
  }

  /** Starts processes that are missing, for example because the server was down when they started. */
  topUp(): void {
    for (const { killed, killedCount, lasting } of this.#all) {
      killed.topUp(killedCount)
      lasting.topUp(this.#lastingCount)
    }
  }

  /** Kills the oldest process of this kind, except those in `lasting`. Resolves when its replacement is at work. */
  async kill(kind: ProcessKind): Promise<void> {
    const { killed, killedCount } = this.#members[kind]
    const untilAtWork = () =>
      waitUntil(`${kind} processes are at work`, () => {
        killed.topUp(killedCount)
        return killed.atWork.length >= killedCount
      })
    await untilAtWork()
    const [oldest] = killed.atWork
    if (oldest === undefined) throw new Error(`no ${kind} process is at work`)
    await killed.kill(oldest)
    this.kills[kind] += 1
    await untilAtWork()
  }

  /** Processes that are at work. */
  get running(): readonly RunningProcess[] {
    const now = performance.now()
    return PROCESS_KINDS.flatMap((kind) =>
      [false, true].flatMap((isLasting) =>
        this.#members[kind][isLasting ? 'lasting' : 'killed'].atWork.map(({ child, startedAtMs }) => ({
          kind,
          isLasting,
          pid: child.pid ?? 0,
          ageSeconds: (now - startedAtMs) / 1_000,
        })),
      ),
    )
  }

  /** Stops all processes cleanly. Returns a sentence for each process that exited by itself or not with 0. */
  async stop(): Promise<readonly string[]> {
    const fleets = this.#all.flatMap(({ killed, lasting }) => [killed, lasting])
    const exits = await Promise.all(fleets.map(async (fleet) => ({ fleet, codes: await fleet.stop() })))
    return exits.flatMap(({ fleet, codes }) => {
      const failed = codes.filter((code) => code !== 0)
      const texts = failed.map(
        (code) => `a process of ${fleet.name} exited with ${code} after a clean stop, expected 0`,
      )
      return fleet.unexpectedExits.concat(texts)
    })
  }

  get #all(): readonly Member[] {
    return PROCESS_KINDS.map((kind) => this.#members[kind])
  }
}

function symphonyCommand(...words: readonly string[]): readonly string[] {
  const stopper = fileURLToPath(new URL('../../support/stopOnStdinEnd.mjs', import.meta.url))
  return ['--import', stopper, builtPath('libs/cli/childMain.js'), ...words]
}

/** Returns a port that is free now, so that a restarted API has the same address. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const port = portOf(server)
  server.close()
  await once(server, 'close')
  return port
}
