// Replaces psql in the guides, because not every machine has it: `psql URL -f FILE`, `psql URL -c SQL` and `psql URL
// -Atc SQL`. Prints one line per row. Prints the first line of an error, like psql.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const pg = createRequire(import.meta.url)('pg')
const [url, how, what] = process.argv.slice(2)
if (!['-c', '-Atc', '-f'].includes(how))
  throw new Error('expected psql URL -c SQL, psql URL -Atc SQL or psql URL -f FILE')
const separator = how === '-Atc' ? '|' : ' | '

const client = new pg.Client(url)
await client.connect()
try {
  const answers = [await client.query(how === '-f' ? readFileSync(what, 'utf8') : what)].flat()
  for (const { rows } of answers)
    for (const row of rows) process.stdout.write(`${Object.values(row).join(separator)}\n`)
} catch (error) {
  process.stderr.write(`ERROR:  ${error.message}\n`)
  process.exitCode = 1
} finally {
  await client.end()
}
