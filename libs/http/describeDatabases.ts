import { readOutboxStatus, readServerVersion } from '../outbox/index.js'
import type { Member } from '../platform/index.js'
import { settleWithin } from '../worker/index.js'
import type { DatabaseView } from './shapes/overview.js'

type Described = Pick<Member, 'name' | 'database'>

/**
 * What each database holds, in the order given: for `GET /v1/databases`, of one database or of a whole platform
 * (`platform.databases.members`). They are asked some at a time, and none is waited for longer than a person would.
 */
export async function describeDatabases(all: readonly Described[]): Promise<DatabaseView[]> {
  const views: DatabaseView[] = []
  for (let from = 0; from < all.length; from += AT_ONCE) {
    views.push(...(await Promise.all(all.slice(from, from + AT_ONCE).map(describe))))
  }
  return views
}

/** One that does not answer is down, and its figures are not known. */
async function describe({ name, database }: Described): Promise<DatabaseView> {
  const { schema } = database
  let view: DatabaseView = { name, schema, state: 'down', ...UNKNOWN }
  const asking = readFigures(database).then((figures) => (view = { name, schema, state: 'up', ...figures }))
  await settleWithin(asking, ANSWER_MS)
  return view
}

async function readFigures(database: Described['database']): Promise<Omit<DatabaseView, 'name' | 'schema' | 'state'>> {
  const readonly = database.as('symphony_readonly')
  const { pendingCount, heldCount, oldestPendingAgeSeconds } = await readOutboxStatus(readonly)
  return {
    pendingCount: String(pendingCount),
    oldestPendingAgeSeconds,
    heldCount: String(heldCount),
    serverVersion: await readServerVersion(readonly),
  }
}

const UNKNOWN = { pendingCount: null, oldestPendingAgeSeconds: null, heldCount: null, serverVersion: null }
/** Each takes a connection of its own database. */
const AT_ONCE = 10
const ANSWER_MS = 2_000
