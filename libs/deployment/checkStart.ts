import { openLoginDatabase, type DatabaseOptions, type LoginDatabase } from '../db/index.js'
import { readCatalog } from './catalog.js'
import { compareCatalogs } from './compareCatalogs.js'
import { environmentFindings, type Finding, releaseFindings, restoreFindings } from './findings.js'
import { condense, readManifest } from './manifest.js'
import { readServerEnvironment, type ServerEnvironment } from './reads.js'

export interface StartCheckOptions extends Pick<DatabaseOptions, 'url' | 'schema' | 'tls'> {
  /** `server` checks only the server, before a schema is deployed. @default 'all' */
  readonly part?: 'server' | 'all'
}

export interface StartCheck {
  /** Findings that stop the start. */
  readonly refusals: readonly Finding[]
  /** Findings that are only printed. */
  readonly warnings: readonly Finding[]
}

const VERSION_MIN = 15

/**
 * Checks before a start that the server is durable and that this release deployed the schema. Unlike the doctor, this
 * check reads only the catalog. So any login may run it, and its duration does not grow with the ledger.
 */
export async function checkStart({ part = 'all', ...options }: StartCheckOptions): Promise<StartCheck> {
  const database = openLoginDatabase({ ...options, applicationName: 'symphony start' })
  try {
    const around = await database.transaction('READ ONLY', (tx) => readServerEnvironment(tx, database.schema))
    const server = checkServer(around)
    if (part === 'server' || server.refusals.length > 0) return server
    return { ...server, refusals: await findDrift(database, around) }
  } finally {
    await database.close()
  }
}

/**
 * Turns notes of the doctor into refusals and warnings. For example, the doctor may examine a standby, but a worker
 * must not start on one.
 */
export function checkServer(around: ServerEnvironment): StartCheck {
  const notes = environmentFindings(around)
  return {
    refusals: [
      ...(around.version < VERSION_MIN ? [serverTooOld(around.version)] : []),
      ...notes.filter(({ code }) => REFUSED.has(code)),
    ],
    warnings: notes.filter(({ code }) => WARNED.has(code)),
  }
}

const REFUSED: ReadonlySet<string> = new Set(['SERVER_NOT_DURABLE', 'SERVER_IS_STANDBY'])
const WARNED: ReadonlySet<string> = new Set(['LOGIN_IS_SUPERUSER', 'SERVER_VERSION_UNTESTED'])

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

async function findDrift(database: LoginDatabase, around: ServerEnvironment): Promise<readonly Finding[]> {
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
