import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { schemaFolder } from './schemaFolder.js'

/** One file of `schema/`, as it is applied. */
export interface SchemaFile {
  /** From `schema/`, with forward slashes: `v1/011_payment_outbox.sql`. */
  readonly name: string
  readonly sql: string
  /** Of the file's bytes, in hexadecimal. */
  readonly sha256: string
}

/** The files of a release, grouped by who applies them and when. */
export interface SchemaFiles {
  /** Applied as the login that deploys: they check the server and create the roles. */
  readonly cluster: readonly SchemaFile[]
  /** Applied as the owner, in this order: v1, then the views. */
  readonly objects: readonly SchemaFile[]
  /** Applied last of all, at every deployment. */
  readonly privileges: SchemaFile
}

/** What the owner cannot do, because it comes before there is an owner. */
const CLUSTER_FILES = new Set(['v1/001_require_postgres.sql', 'v1/002_roles.sql'])
const PRIVILEGES_FILE = 'v1/011_privileges.sql'

export function readSchemaFiles(folder: string = schemaFolder()): SchemaFiles {
  const files = ['v1', 'views'].flatMap((part) => sqlFilesIn(folder, part))
  return {
    cluster: files.filter(({ name }) => CLUSTER_FILES.has(name)),
    objects: files.filter(({ name }) => !CLUSTER_FILES.has(name) && name !== PRIVILEGES_FILE),
    privileges: files.find(({ name }) => name === PRIVILEGES_FILE)!,
  }
}

/** In the order in which they are applied. */
export function inOrder({ cluster, objects, privileges }: SchemaFiles): readonly SchemaFile[] {
  return [...cluster, ...objects, privileges]
}

function sqlFilesIn(folder: string, part: string): SchemaFile[] {
  return readdirSync(join(folder, part))
    .filter((name) => name.endsWith('.sql'))
    .toSorted(byBytes)
    .map((name) => {
      const content = readFileSync(join(folder, part, name))
      return {
        name: `${part}/${name}`,
        sql: content.toString('utf8'),
        sha256: createHash('sha256').update(content).digest('hex'),
      }
    })
}

/** Not by locale: the order of files is the same on every machine. */
function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right))
}
