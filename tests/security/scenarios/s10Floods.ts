import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Agent, request } from 'undici'
import { ApiKeys } from '../../../libs/access/index.js'
import { spawnSymphony } from '../../support/commandLine.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'

const MEMORY_MAX_MIB = 256
const SLOWER_MAX = 2
/** Rate of the good clients. */
const GOOD_REQUESTS_PER_SECOND = 50

/**
 * Floods an API process in every way at once, while good clients use it. The flood runs on the same machine at the
 * lowest priority, because a flood from another machine would take no CPU from the server.
 */
export default defineScenario({
  id: 'S10',
  title:
    'The API is flooded by slow connections, deep JSON, huge numbers, giant headers and 1,000 requests of 64 KiB per second, without a key and with one. Good clients use it meanwhile.',
  bar: `Memory ≤ ${MEMORY_MAX_MIB} MiB; p99 of good clients ≤ ${SLOWER_MAX} × the p99 without a flood; 0 good requests fail.`,
  // In 300 s, the warm-up of the process (1.5 s) affects less than 1 % of the requests.
  sizes: { full: { seconds: 300, requestsPerSecond: 1_000 }, short: { seconds: 3, requestsPerSecond: 300 } },
  async run(fixture, { seconds, requestsPerSecond }) {
    const api = await startApi(fixture)
    const good = new GoodClient(api.address, api.goodKey)
    fixture.defer(() => good.close())
    await good.ask(1)
    const quiet = await good.ask(Math.max(3, Math.min(10, seconds)))
    const flood = startFlood(fixture, { address: api.address, key: api.noisyKey, requestsPerSecond })
    fixture.progress('the flood is on')
    const beside = await good.ask(seconds)
    const { sent, refused, serverErrors, slowConnections } = await flood.stop()
    const peakMib = await peakMemoryMib(api.pid)
    const after = await good.ask(1)
    const slower = beside.p99Ms / quiet.p99Ms
    return {
      figures: {
        floodRequests: sent,
        slowConnections,
        refusedOrCut: refused,
        serverErrors,
        peakMemoryMib: peakMib,
        p99QuietMs: tenths(quiet.p99Ms),
        p99BesideMs: tenths(beside.p99Ms),
        worstBesideMs: tenths(beside.worstMs),
        timesSlower: Number(slower.toFixed(3)),
        goodFailed: beside.failed + after.failed,
      },
      defects: [
        ...(peakMib > MEMORY_MAX_MIB ? [`${peakMib} MiB of memory`] : []),
        // Judges the exact ratio. NaN, if no request succeeded, is a defect too.
        ...(slower <= SLOWER_MAX ? [] : [`a good client’s p99 was ${slower} times that without a flood`]),
        ...(beside.failed + after.failed > 0
          ? [`${beside.failed + after.failed} requests of good clients failed`]
          : []),
        ...(serverErrors > 0 ? [`${serverErrors} answers were of a status above 499`] : []),
        ...(sent < (seconds * requestsPerSecond) / 2 ? [`only ${sent} requests of the flood were sent`] : []),
      ],
    }
  },
})

interface FloodReport {
  readonly sent: number
  readonly refused: number
  readonly serverErrors: number
  readonly slowConnections: number
}

interface FloodOrder {
  readonly address: string
  readonly key: string
  readonly requestsPerSecond: number
}

function startFlood(fixture: ScenarioFixture, order: FloodOrder): { readonly stop: () => Promise<FloodReport> } {
  const program = fileURLToPath(new URL('../../support/floodProcess.mjs', import.meta.url))
  const child = spawn(process.execPath, [program, JSON.stringify(order)], { stdio: ['pipe', 'pipe', 'inherit'] })
  setPriority(child.pid ?? 0, 19)
  fixture.defer(() => child.kill('SIGKILL'))
  let output = ''
  child.stdout.on('data', (chunk) => (output += String(chunk)))
  return {
    stop: async () => {
      child.stdin.end()
      await once(child, 'close')
      const report: FloodReport = JSON.parse(output)
      return report
    },
  }
}

interface RunningApi {
  readonly address: string
  readonly pid: number
  readonly goodKey: string
  readonly noisyKey: string
}

async function startApi(fixture: ScenarioFixture): Promise<RunningApi> {
  const db = await fixture.createDatabase(await fixture.startServer())
  const roles = ['ingest', 'readonly', 'auditor', 'control', 'auth'].map((role) => `symphony_${role}`)
  const { name, url } = await db.createLogin('api', { roles })
  await db.queryNoRole('SELECT set_actor_gateway($1, true)', [name])
  const keyOf = async (owner: string) => (await new ApiKeys(db).create({ scopes: ['ingest', 'read'], owner })).key
  const [goodKey, noisyKey] = [await keyOf('good'), await keyOf('noisy')]
  const words = ['api', '--port', '0', '--log-level', 'error', '--requests-per-second', '200']
  const running = spawnSymphony(words, {
    DATABASE_URL: url,
    SYMPHONY_SCHEMA: db.schema,
    PATH: process.env['PATH'] ?? '',
  })
  fixture.defer(async () => {
    running.child.kill('SIGKILL')
    await running.ended
  })
  for (let waited = 0; waited < 300; waited += 1) {
    const address = /listens on (\S+)\./.exec(running.stdout())?.[1]
    if (address !== undefined) return { address, pid: running.child.pid ?? 0, goodKey, noisyKey }
    await delay(100)
  }
  throw new Error(`the API did not start: ${running.stderr()}`)
}

/** Returns the highest resident size of the process so far. */
async function peakMemoryMib(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? Number.NaN) / 1_024)
}

interface Latencies {
  readonly p99Ms: number
  readonly worstMs: number
  readonly failed: number
}

class GoodClient {
  readonly #address: string
  readonly #key: string
  readonly #agent = new Agent({ connections: 4 })
  #number = 0

  constructor(address: string, key: string) {
    this.#address = address
    this.#key = key
  }

  /** Enqueues and reads for the given number of seconds. */
  async ask(seconds: number): Promise<Latencies> {
    const latencies: number[] = []
    let failed = 0
    const asked: Promise<void>[] = []
    for (let count = 0; count < seconds * GOOD_REQUESTS_PER_SECOND; count += 1) {
      asked.push(
        this.#once(count).then(
          (ms) => void latencies.push(ms),
          () => void (failed += 1),
        ),
      )
      await delay(1_000 / GOOD_REQUESTS_PER_SECOND)
    }
    await Promise.all(asked)
    latencies.sort((left, right) => left - right)
    return {
      p99Ms: latencies[Math.floor(latencies.length * 0.99)] ?? Number.NaN,
      worstMs: latencies.at(-1) ?? Number.NaN,
      failed,
    }
  }

  async #once(count: number): Promise<number> {
    const started = performance.now()
    const isRead = count % 2 === 0
    this.#number += 1
    const id = `good-${this.#number}`
    const { statusCode, body } = await request(`${this.#address}${isRead ? '/v1/me' : '/v1/instructions'}`, {
      dispatcher: this.#agent,
      method: isRead ? 'GET' : 'POST',
      headers: {
        authorization: `Bearer ${this.#key}`,
        ...(isRead ? {} : { 'content-type': 'application/json', 'idempotency-key': id }),
      },
      ...(isRead
        ? {}
        : { body: JSON.stringify({ instructionId: id, participantId: id, railType: 'r', payload: { amount: '1' } }) }),
    })
    await body.dump()
    if (statusCode >= 400) throw new Error(`${statusCode}`)
    return performance.now() - started
  }

  async close(): Promise<void> {
    await this.#agent.close()
  }
}

/** Rounds milliseconds to a tenth. */
function tenths(ms: number): number {
  return Math.round(ms * 10) / 10
}
