import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { eventsReference } from '../../scripts/eventsReference.mjs'

test('the page about events says what the sources say', async () => {
  const page = await readFile(new URL('../../docs/reference/events.md', import.meta.url), 'utf8')
  // Run `node scripts/eventsReference.mjs` and look at what has changed for whoever reads logs.
  expect(page).toBe(await eventsReference())
})
