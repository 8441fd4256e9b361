// Generates docs/internals/schema.md from schema/manifest.json and the SQL files: tables with writers and readers,
// indexes with their queries, functions with callers. `npm run schema:snapshot` writes the page; a test compares it.
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { wrapMarkdown } from './wrapMarkdown.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
export const SCHEMA_PAGE = 'docs/internals/schema.md'

export function schemaReference() {
  const manifest = JSON.parse(readFileSync(join(root, 'schema/manifest.json'), 'utf8'))
  const functions = functionsByFile()
  return wrapMarkdown(`# The schema

For DBAs: every table with its writers, readers and indexes, and every function with its callers. Generated from \`schema/\` by \`npm run schema:snapshot\`; a test compares them.

| folder | holds | applied |
| --- | --- | --- |
| \`schema/v1\` | types, tables, indexes and triggers, one file per capability | once |
| \`schema/migrations\` | [changes to released tables](../../schema/migrations/README.md) | each once |
| \`schema/functions\` | [functions](../../schema/functions/README.md), one folder per capability | all, whenever one has changed |
| \`schema/views\` | views for status and throughput | with the functions |
| \`schema/v1/011_privileges.sql\` | every GRANT and REVOKE | every time |

No runtime role may write a table. The functions below write as their owner; a role may execute only the functions that list it as a caller. Planner settings of functions are in \`planner.sql\`.

## Tables

${tableSections(manifest, functions)}

## Functions

${functionSections(manifest, functions)}
`)
}

/** Returns the files of schema/functions with the texts of their functions. */
function functionsByFile() {
  const folder = join(root, 'schema/functions')
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((name) => name.replaceAll('\\', '/'))
  return files
    .filter((name) => name.endsWith('.sql'))
    .toSorted()
    .map((name) => {
      const text = readFileSync(join(folder, name), 'utf8')
      const parts = text.split(/^ *CREATE OR REPLACE FUNCTION /m).slice(1)
      return { file: name, functions: parts.map((part) => ({ name: /^\w+/.exec(part)?.[0], text: part })) }
    })
    .filter((one) => one.functions.length > 0)
}

function tableSections(manifest, functions) {
  const files = readdirSync(join(root, 'schema/v1')).toSorted()
  return files
    .map((file) => {
      const text = readFileSync(join(root, 'schema/v1', file), 'utf8')
      const own = [...text.matchAll(/^CREATE (?:UNLOGGED )?TABLE IF NOT EXISTS (\w+)/gm)].map(([, name]) => name)
      return { file, own: own.filter((name) => manifest.relations[name]?.type === 'table') }
    })
    .filter(({ own }) => own.length > 0)
    .map(({ file, own }) => [`### ${file}`, ...own.map((name) => tableText(name, manifest, functions))].join('\n\n'))
    .join('\n\n')
}

function tableText(name, manifest, functions) {
  const writes = new RegExp(`\\b(INSERT INTO|UPDATE|DELETE FROM) ${name}\\b`)
  const writers = functions.flatMap(({ functions: all }) => all.filter(({ text }) => writes.test(text)))
  const readers = Object.keys(manifest.grants).flatMap(
    (grant) => new RegExp(`^SELECT on (?:columns of )?table ${name} to symphony_(\\w+)$`).exec(grant)?.[1] ?? [],
  )
  const indexes = Object.entries(manifest.indexes).filter(([index]) => index.startsWith(`${name}.`))
  return `**\`${name}\`**. ${manifest.relations[name].comment ?? ''}

- written by ${listOf(writers.map((one) => `\`${one.name}\``)) || 'the owner alone'}
- read by ${listOf([...new Set(readers)]) || 'functions alone'}

Indexes:

${indexes.map(([index, properties]) => indexItem(index.slice(name.length + 1), properties, manifest, name)).join('\n')}`
}

function indexItem(index, { definition, comment }, manifest, table) {
  const shape = definition.replace(/^CREATE (UNIQUE )?INDEX .* USING /, '$1')
  const constraint = manifest.constraints[`${table}.${index}`]
  const serves = comment ?? (constraint === undefined ? '' : `Constraint \`${constraint.definition}\`.`)
  return `- \`${index}\`, \`${shape}\`: ${serves}`
}

function functionSections(manifest, functions) {
  return functions
    .map(({ file, functions: all }) => {
      const names = [...new Set(all.map(({ name }) => name))]
      return `### ${file}\n\n${names.map((name) => functionItem(name, manifest)).join('\n')}`
    })
    .join('\n\n')
}

function functionItem(name, manifest) {
  const [, { comment = '' } = {}] =
    Object.entries(manifest.functions).find(([signature]) => signature.startsWith(`${name}(`)) ?? []
  const callers = Object.keys(manifest.grants).flatMap(
    (grant) => new RegExp(`^EXECUTE on function ${name}\\(.*\\) to symphony_(\\w+)$`).exec(grant)?.[1] ?? [],
  )
  const list = listOf([...new Set(callers)])
  return `- \`${name}\`. ${comment}${list === '' ? '' : ` Callers: ${list}.`}`
}

function listOf(items) {
  return [...new Set(items)].toSorted((left, right) => (left < right ? -1 : 1)).join(', ')
}
