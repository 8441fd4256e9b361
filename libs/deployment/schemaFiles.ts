import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DeploymentError } from './errors.js'

export interface SchemaFile {
  /** Path from `schema/`, with forward slashes: `v1/011_payment_outbox.sql`. */
  readonly name: string
  readonly sql: string
  readonly sha256: string
}

/** Files of a release, by the role that applies them and how often. */
export interface SchemaFiles {
  /** Applied by the deploying login at every deployment: they check the server and create the roles. */
  readonly cluster: readonly SchemaFile[]
  /** Applied by the owner once, in this order: v1, then the migrations. */
  readonly tables: readonly SchemaFile[]
  /** Applied by the owner, all of them whenever one has changed: the functions, then the views. */
  readonly repeatable: readonly SchemaFile[]
  /** Applied last, at every deployment. */
  readonly privileges: SchemaFile
}

/** Files that the owner role cannot apply, because it may not exist yet: they check the server and create the roles. */
const CLUSTER_FILES = new Set(['v1/001_require_postgres.sql', 'v1/002_roles.sql'])
const PRIVILEGES_FILE = 'v1/011_privileges.sql'

export function readSchemaFiles(folder: string = schemaFolder()): SchemaFiles {
  const v1 = sqlFilesIn(folder, 'v1')
  const migrations = existsSync(join(folder, 'migrations')) ? sqlFilesIn(folder, 'migrations') : []
  return {
    cluster: v1.filter(({ name }) => CLUSTER_FILES.has(name)),
    tables: [...v1.filter(({ name }) => !CLUSTER_FILES.has(name) && name !== PRIVILEGES_FILE), ...migrations],
    repeatable: ['functions', 'views'].flatMap((part) => sqlFilesIn(folder, part)),
    privileges: v1.find(({ name }) => name === PRIVILEGES_FILE)!,
  }
}

/** Returns the files in the order in which they are applied. */
export function inOrder({ cluster, tables, repeatable, privileges }: SchemaFiles): readonly SchemaFile[] {
  return [...cluster, ...tables, ...repeatable, privileges]
}

/** Returns the files of subfolders, then those of the folder itself. */
function sqlFilesIn(folder: string, part: string): SchemaFile[] {
  return readdirSync(join(folder, part), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.sql'))
    .map((name) => `${part}/${name.replaceAll(sep, '/')}`)
    .toSorted((left, right) => depthOf(right) - depthOf(left) || byBytes(left, right))
    .map((name) => {
      const content = readFileSync(join(folder, name))
      return { name, sql: content.toString('utf8'), sha256: createHash('sha256').update(content).digest('hex') }
    })
}

function depthOf(name: string): number {
  return name.split('/').length
}

/** Compares bytes instead of using the locale, so that the order is the same on every machine. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}

export interface SqlQuery {
  /** File name without its suffix. */
  readonly name: string
  readonly sql: string
}

/** Reads the files of `schema/catalog` or `schema/checks`. They query the current schema and take no parameters. */
export function readSqlQueries(part: 'catalog' | 'checks'): readonly SqlQuery[] {
  const folder = join(schemaFolder(), part)
  return readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .toSorted()
    .map((file) => ({ name: file.replace(/\.sql$/, ''), sql: readFileSync(join(folder, file), 'utf8') }))
}

/** Finds `schema/` in a parent folder, because compiled code lies deeper in the package than its source. */
export function schemaFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'schema', 'v1'))) {
    const parent = dirname(folder)
    if (parent === folder) {
      throw new DeploymentError('DEPLOYMENT_NO_SCHEMA_FILES', 'The folder schema/ is missing from this package.', {
        remedy: 'Install the package again.',
      })
    }
    folder = parent
  }
  return join(folder, 'schema')
}
