import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { eventsReference } from '../../scripts/eventsReference.mjs'
import { schemaReference } from '../../scripts/schemaReference.mjs'

test('the page about events says what the sources say', async () => {
  const page = await readFile(new URL('../../docs/reference/events.md', import.meta.url), 'utf8')
  // Run `node scripts/eventsReference.mjs` and look at what has changed for whoever reads logs.
  expect(page).toBe(await eventsReference())
})

test('the page about the schema says what the manifest and the files say', async () => {
  const page = await readFile(new URL('../../docs/internals/schema.md', import.meta.url), 'utf8')
  // Run `npm run schema:snapshot`.
  expect(page).toBe(schemaReference())
  // An index that no constraint needs has a COMMENT that names the query it serves.
  expect(page.match(/^\| `.*\|  \|$/gm) ?? []).toEqual([])
})
