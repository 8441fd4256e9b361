import { openLoginDatabase, type DatabaseOptions, type LoginDatabase } from '../db/index.js'
import { readCatalog } from './catalog.js'
import { compareCatalogs } from './compareCatalogs.js'
import { readSurroundings, type Surroundings } from './db.js'
import type { Finding } from './findings.js'
import { condense, readManifest } from './manifest.js'
import { releaseFindings, restoreFindings } from './releaseFindings.js'
import { surroundingFindings } from './surroundingFindings.js'

export interface StartCheckOptions extends Pick<DatabaseOptions, 'url' | 'schema' | 'tls'> {
  /** `server` before there is a schema to look at. @default 'all' */
  readonly part?: 'server' | 'all'
}

export interface StartCheck {
  /** Why no process may move payments here. */
  readonly refusals: readonly Finding[]
  /** What a careful operator would not leave so. */
  readonly warnings: readonly Finding[]
}

const VERSION_MIN = 15

/**
 * What a process has to know before it moves money: is this a server that keeps what it commits, and is the schema what
 * this release deploys? Unlike the doctor it looks at the catalog alone, so any login will do and a long ledger costs
 * nothing.
 */
export async function checkStart({ part = 'all', ...options }: StartCheckOptions): Promise<StartCheck> {
  const database = openLoginDatabase({ ...options, applicationName: 'symphony start' })
  try {
    const around = await database.transaction('READ ONLY', (tx) => readSurroundings(tx, database.schema))
    const server = judgeServer(around)
    if (part === 'server' || server.refusals.length > 0) return server
    return { ...server, refusals: await findDrift(database, around) }
  } finally {
    await database.close()
  }
}

/** What the doctor only mentions, because it may be looking on purpose, is a reason not to start. */
export function judgeServer(around: Surroundings): StartCheck {
  const mentions = surroundingFindings(around)
  return {
    refusals: [
      ...(around.version < VERSION_MIN ? [serverTooOld(around.version)] : []),
      ...mentions.filter(({ code }) => REFUSED.has(code)),
    ],
    warnings: mentions.filter(({ code }) => WARNED.has(code)),
  }
}

const REFUSED: ReadonlySet<string> = new Set(['SERVER_MAY_FORGET', 'SERVER_IS_STANDBY'])
const WARNED: ReadonlySet<string> = new Set(['LOGIN_IS_SUPERUSER', 'SERVER_VERSION_UNPROVEN'])

function serverTooOld(version: number): Finding {
  return {
    severity: 'drift',
    code: 'SERVER_TOO_OLD',
    object: 'server',
    expected: `PostgreSQL ${VERSION_MIN} or newer`,
    found: `PostgreSQL ${version}`,
    remedy: 'Upgrade the server, or point DATABASE_URL at a newer one.',
  }
}

async function findDrift(database: LoginDatabase, around: Surroundings): Promise<readonly Finding[]> {
  const { schema } = database
  if (!around.isDeployed) {
    return [
      {
        severity: 'drift',
        code: 'NOT_DEPLOYED',
        object: `schema ${schema}`,
        expected: 'a deployment of Symphony',
        found: 'none of its tables',
        remedy: 'symphony deploy',
      },
    ]
  }
  const restored = restoreFindings(around, schema)
  if (restored.length > 0) return restored
  return database.transaction('READ ONLY', async (tx) => {
    const catalog = await readCatalog(tx, schema)
    return [...(await releaseFindings(tx)), ...compareCatalogs(readManifest(around.version), condense(catalog))]
  })
}
