import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { schemaFolder } from './schemaFolder.js'

/** A question to the database that lives in a file of its own. */
export interface SqlQuestion {
  /** The file's name without its ending: what the answer is about. */
  readonly name: string
  readonly sql: string
}

/** The files of `schema/catalog` or `schema/checks`. They ask about the current schema and take no parameters. */
export function readQuestions(part: 'catalog' | 'checks'): readonly SqlQuestion[] {
  const folder = join(schemaFolder(), part)
  return readdirSync(folder)
    .filter((file) => file.endsWith('.sql'))
    .toSorted()
    .map((file) => ({ name: file.replace(/\.sql$/, ''), sql: readFileSync(join(folder, file), 'utf8') }))
}
