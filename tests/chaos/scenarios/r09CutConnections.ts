import { DatabaseError, openDatabase, type Database } from '../../../libs/db/index.js'
import type { Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import type { TestDatabase } from '../../support/database.js'
import {
  CUT_OPERATIONS,
  wrongError,
  type CutOperation,
  type CallResult,
  type Replayable,
} from '../../scorecard/cutOperations.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { waitUntil } from '../../scorecard/waitUntil.js'
import type { Direction } from '../../support/wireMessages.js'
import { WireProxy, type ArmedFault } from '../../support/wireProxy.js'

const CUTS_MIN = 2_000
const APPLICATION = 'symphony cut'
/** Statement timeout of a caller. The driver waits slightly longer. */
const TIMEOUT_MS = 1_000
const DIRECTIONS: readonly Direction[] = ['toServer', 'toClient']

export default defineScenario({
  id: 'R9',
  title:
    'The connection is cut at each byte of enqueue, claim, complete, renew, inbox and schedule calls, in both directions.',
  bar: `At least ${CUTS_MIN.toLocaleString('en-US')} cuts; every repeated call returns the same answer; 0 double effects; 0 errors that claim a wrong outcome.`,
  // Cuts at every n-th byte (`everyBytes`). Freezes are few, because each lasts until the caller times out.
  sizes: { full: { everyBytes: 1, freezesPerThousand: 4 }, short: { everyBytes: 60, freezesPerThousand: 10 } },
  async run(fixture, { everyBytes, freezesPerThousand }) {
    const server = await fixture.startServer()
    const db = await fixture.createDatabase(server)
    const { url } = await db.createLogin('cut', {
      roles: ['symphony_ingest', 'symphony_executor', 'symphony_control'],
    })
    const proxy = await WireProxy.before(server.url)
    fixture.defer(() => proxy.close())
    const way = new URL(url)
    way.port = String(proxy.port)
    const database = openDatabase({
      url: way.href,
      schema: db.schema,
      connectionsMax: 1,
      applicationName: APPLICATION,
      statementTimeoutMs: TIMEOUT_MS,
    })
    fixture.defer(() => database.close())

    const bench = { db, database, proxy, random: fixture.random }
    const figures = { operations: 0, cuts: 0, freezes: 0, committed: 0, notCommitted: 0 }
    const defects: string[] = []
    for (const [name, operation] of Object.entries(CUT_OPERATIONS)) {
      const lengths = await measure(operation, bench)
      for (const direction of DIRECTIONS) {
        const first = Math.floor(fixture.random() * everyBytes)
        for (let afterBytes = first; afterBytes < lengths[direction]; afterBytes += everyBytes) {
          const fault = chooseFault(fixture.random(), freezesPerThousand / 1_000)
          const cut = await cutOnce(operation, bench, { direction, afterBytes, fault })
          if (cut.place === undefined) continue
          if (fault === 'freeze') figures.freezes += 1
          else figures.cuts += 1
          if (cut.tookEffect) figures.committed += 1
          else figures.notCommitted += 1
          defects.push(...cut.defects.map((defect) => `${name}, ${direction} ${afterBytes} (${cut.place}): ${defect}`))
        }
      }
      figures.operations += 1
      fixture.progress(
        `${name}: ${lengths.toServer} bytes to the server, ${lengths.toClient} back; ${figures.cuts} cuts so far`,
      )
    }
    const tooFew = everyBytes === 1 && figures.cuts < CUTS_MIN ? [`only ${figures.cuts} cuts were made`] : []
    return { figures, defects: [...defects, ...tooFew] }
  },
})

/** Chooses between a clean end, a reset, and a freeze in which neither side gets an error. */
function chooseFault(dice: number, freezeChance: number): 'end' | 'reset' | 'freeze' {
  if (dice < freezeChance) return 'freeze'
  return dice < 0.5 ? 'end' : 'reset'
}

interface Bench {
  readonly db: TestDatabase
  readonly database: Database
  readonly proxy: WireProxy
  readonly random: Random
}

/** Measures the bytes of the call in each direction, on an open connection. */
async function measure(operation: CutOperation, bench: Bench): Promise<Readonly<Record<Direction, number>>> {
  const { proxy, database } = bench
  const prepared = await operation(bench.db)
  // Uses a new connection on which the statement is not prepared, as after every cut.
  proxy.cutAll()
  await warm(bench, prepared)
  proxy.arm()
  await prepared.call(database)
  await untilIdle(bench)
  return proxy.disarm().passed
}

interface Cut {
  /** Protocol message and byte at which the connection was cut. Undefined if the call ended before that byte. */
  readonly place: string | undefined
  readonly tookEffect: boolean
  readonly defects: readonly string[]
}

async function cutOnce(operation: CutOperation, bench: Bench, strike: ArmedFault): Promise<Cut> {
  const { proxy, database, random } = bench
  const prepared = await operation(bench.db)
  proxy.cutAll()
  await warm(bench, prepared)
  proxy.arm(strike)
  const result = await settle(prepared.call(database))
  if ('answer' in result) await untilIdle(bench)
  const { faultAt } = proxy.disarm()
  // Half of the callers wait until the first call has ended. The others repeat the call at once, perhaps while it runs.
  const waitsForServer = random() < 0.5
  return {
    place: faultAt && `${faultAt.message} at byte ${faultAt.byte}`,
    ...(waitsForServer ? await checkSettled(prepared, result, bench) : await checkAtOnce(prepared, result, bench)),
  }
}

async function checkSettled(prepared: Replayable, result: CallResult, bench: Bench): Promise<Omit<Cut, 'place'>> {
  await untilGone(bench)
  const isCommitted = await prepared.isCommitted()
  const tookEffectAgain = await prepared.replay()
  return {
    tookEffect: isCommitted,
    defects: [
      ...('error' in result
        ? wrongError(result.error, isCommitted)
        : isCommitted
          ? []
          : ['it was answered and not committed']),
      ...(tookEffectAgain === isCommitted
        ? [`committed: ${isCommitted}, and the replay took effect: ${tookEffectAgain}`]
        : []),
      ...(await prepared.check()),
    ],
  }
}

async function checkAtOnce(prepared: Replayable, result: CallResult, bench: Bench): Promise<Omit<Cut, 'place'>> {
  const tookEffectAgain = await replayWhenPossible(prepared, bench)
  return {
    tookEffect: !tookEffectAgain,
    defects: [
      ...('error' in result
        ? wrongError(result.error, !tookEffectAgain)
        : tookEffectAgain
          ? ['an answered call took effect twice']
          : []),
      ...(await prepared.check()),
    ],
  }
}

/**
 * Repeats the call. After a retryable error, cuts all sessions and repeats once more, because a frozen session keeps
 * its locks.
 */
async function replayWhenPossible(prepared: Replayable, bench: Bench): Promise<boolean> {
  try {
    return await prepared.replay()
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.disposition !== 'retry') throw error
    await untilGone(bench)
    return prepared.replay()
  }
}

async function settle(call: Promise<unknown>): Promise<CallResult> {
  try {
    return { answer: await call }
  } catch (error) {
    return { error }
  }
}

/** Opens a connection in the role, so that no bytes of a login are counted as bytes of the call. */
async function warm({ database }: Bench, { role }: Replayable): Promise<void> {
  await waitUntil('a connection', () =>
    database.queryAsRole(role, 'SELECT 1').then(
      () => true,
      () => false,
    ),
  )
}

/** Waits until the connection is back in the pool. The clean-up after the answer belongs to the call. */
async function untilIdle({ database }: Bench): Promise<void> {
  await waitUntil('the connection is back in the pool', () => database.poolUsage.every(({ inUse }) => inUse === 0), {
    everyMs: 1,
  })
}

/**
 * Cuts all connections and waits until the server has ended their sessions. By then their work is committed or rolled
 * back.
 */
async function untilGone({ db, proxy }: Bench): Promise<void> {
  proxy.cutAll()
  await waitUntil(
    'the sessions that were cut are gone',
    async () => {
      const { rows } = await db.queryNoRole('SELECT 1 FROM pg_stat_activity WHERE application_name = $1 LIMIT 1', [
        APPLICATION,
      ])
      return rows.length === 0
    },
    { everyMs: 1 },
  )
}
