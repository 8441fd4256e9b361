import { spawn, type ChildProcess } from 'node:child_process'
import { EventEmitter, once } from 'node:events'
import { createInterface } from 'node:readline'
import { purgeIdleLeases } from '../../libs/lease/index.js'
import { builtPath } from './builtPath.js'
import type { TestDatabase } from './database.js'
import { openConnection } from './race.js'

export interface LeaseStressOptions {
  /** Number of tokens after which the run ends. */
  readonly tokens: number
  readonly processes: number
  /** Number of tokens between two kills of a process. At each kill leases also expire and are purged. */
  readonly tokensPerKill: number
}

export interface LeaseStressResult {
  /** Number of tokens that the database issued, including those whose process was killed before it printed them. */
  readonly issued: number
  readonly kills: number
  readonly expired: number
  readonly removed: number
  /** Tokens that are not greater than the previous token of the same resource, in commit order. */
  readonly notGreater: readonly unknown[]
  /** Printed tokens that the database never issued, or that were printed twice. */
  readonly unrecorded: readonly string[]
}

/**
 * Runs processes that acquire, steal, renew and release the same few resources and print each token. It kills one of
 * them now and then, and moves leases back in time so that they expire or are purged.
 */
export async function runLeaseStress(db: TestDatabase, options: LeaseStressOptions): Promise<LeaseStressResult> {
  await recordTokens(db)
  const { url } = await db.createLogin('stress', { roles: ['symphony_executor'] })
  const printed: string[] = []
  const emitter = new EventEmitter()
  const start = () =>
    startHolder(url, db.schema, (token) => {
      printed.push(token)
      emitter.emit(String(printed.length))
    })
  const holders = Array.from({ length: options.processes }, start)
  const done = { kills: 0, expired: 0, removed: 0 }
  try {
    for (let target = options.tokensPerKill; target <= options.tokens; target += options.tokensPerKill) {
      // A process that exits by itself has failed and printed why.
      const ended = Promise.race(holders.map(({ closed }) => closed.then(() => 'ended')))
      if (printed.length < target && (await Promise.race([once(emitter, String(target)), ended])) === 'ended') {
        throw new Error('a process exited by itself')
      }
      await kill(holders.shift()!)
      done.kills += 1
      holders.push(start())
      const { expired, removed } = await jumpInTime(db)
      done.expired += expired
      done.removed += removed
    }
  } finally {
    await Promise.all(holders.map(kill))
  }
  return { ...done, ...(await check(db, printed)) }
}

const PROGRAM = `
const [leaseModule, dbModule, url, schema] = process.argv.slice(1)
const { acquireLease, renewLease, releaseLease } = await import(leaseModule)
const { openDatabase } = await import(dbModule)
const executor = openDatabase({ url, schema }).as('symphony_executor')
const oneOf = (list) => list[Math.floor(Math.random() * list.length)]
const claims = new Map()
const print = (resource, grant) => grant && console.log(resource + ' ' + grant.fencingToken + '.')
async function step() {
  const resource = oneOf(['a', 'b', 'c', 'd'])
  const claim = claims.get(resource)
  const dice = Math.random()
  if (claim && dice < 0.5) return print(resource, await renewLease(executor, claim, 60_000))
  if (claim && dice < 0.7) return claims.delete(resource) && releaseLease(executor, claim)
  // All processes use the same owners, so each can replace the leases of the others.
  const owner = oneOf(['x', 'y'])
  const grant = await acquireLease(executor, { resource, owner, durationMs: 60_000 })
  if (grant) claims.set(resource, { resource, owner, leaseId: grant.leaseId })
  print(resource, grant)
}
await Promise.all([1, 2, 3].map(async () => { for (;;) await step() }))
`

interface Holder {
  readonly process: ChildProcess
  /** Resolves when all output is read. */
  readonly closed: Promise<unknown>
}

function startHolder(url: string, schema: string, onToken: (token: string) => void): Holder {
  const entryPoints = [builtPath('libs/lease/index.js'), builtPath('libs/db/index.js')]
  const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM, ...entryPoints, url, schema], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines = createInterface(child.stdout)
  lines.on('line', onToken)
  return { process: child, closed: Promise.all([once(lines, 'close'), once(child, 'exit')]) }
}

async function kill({ process: child, closed }: Holder): Promise<void> {
  child.kill('SIGKILL')
  await closed
}

/**
 * Records every change of a token with a trigger. The row lock is held until commit, so the order is that of the
 * commits.
 */
async function recordTokens(db: TestDatabase): Promise<void> {
  await db.queryNoRole(`
    CREATE SCHEMA lease_stress;
    CREATE TABLE lease_stress.issued (no bigint GENERATED ALWAYS AS IDENTITY, resource text, token bigint);
    CREATE FUNCTION lease_stress.record() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
      INSERT INTO lease_stress.issued (resource, token) VALUES (NEW.resource, NEW.fencing_token);
      RETURN NULL;
    END $$;
    CREATE TRIGGER lease_stress AFTER UPDATE ON symphony_leases FOR EACH ROW
      WHEN (NEW.fencing_token IS DISTINCT FROM OLD.fencing_token) EXECUTE FUNCTION lease_stress.record()`)
}

/** Expires all leases as if two hours had passed, and purges two resources. */
async function jumpInTime(db: TestDatabase): Promise<{ expired: number; removed: number }> {
  const connection = await openConnection(db)
  // One transaction, because the processes would otherwise acquire all leases before the purge.
  await connection.query('BEGIN')
  const { rows } = await connection.query(
    `UPDATE symphony_leases SET expires_at = clock_timestamp() - interval '2 hours' RETURNING resource`,
  )
  const removed = await purgeIdleLeases(connection, 3_600, 2)
  await connection.query('COMMIT')
  await connection.close()
  return { expired: rows.length, removed }
}

async function check(db: TestDatabase, printed: readonly string[]) {
  const { rows: issued } = await db.queryNoRole<{ token: string }>(
    `SELECT resource || ' ' || token AS token FROM lease_stress.issued`,
  )
  const { rows: notGreater } = await db.queryNoRole(
    `SELECT * FROM (
       SELECT no, resource, token, lag(token) OVER (PARTITION BY resource ORDER BY no) AS before FROM lease_stress.issued
     ) t WHERE token <= before`,
  )
  const unclaimed = new Set(issued.map(({ token }) => token))
  // A line without a full stop was cut off by a kill.
  const unrecorded = printed.filter((line) => line.endsWith('.') && !unclaimed.delete(line.slice(0, -1)))
  return { issued: issued.length, notGreater, unrecorded }
}
