import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { eventsReference } from '../../scripts/eventsReference.mjs'
import { schemaReference } from '../../scripts/schemaReference.mjs'

test('docs/reference/events.md matches the sources', async () => {
  const page = await readFile(new URL('../../docs/reference/events.md', import.meta.url), 'utf8')
  // After a failure, run `node scripts/eventsReference.mjs` and review the change for readers of logs.
  expect(page).toBe(await eventsReference())
})

test('docs/internals/schema.md matches the manifest and the schema files', async () => {
  const page = await readFile(new URL('../../docs/internals/schema.md', import.meta.url), 'utf8')
  // After a failure, run `npm run schema:snapshot`.
  expect(page).toBe(schemaReference())
  // An index that no constraint needs has a COMMENT that names the query it serves.
  expect(page.match(/^- `.*`: $/gm) ?? []).toEqual([])
})
