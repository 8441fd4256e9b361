import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { ALERT_RULES } from '../../libs/observability/alerts/rules.js'

/** Checks that alerts, metrics and log lines named on the troubleshooting page exist. */

const read = (path: string) => readFile(new URL(`../../${path}`, import.meta.url), 'utf8')

/** Returns the texts in backticks. */
async function namesOnPage(): Promise<string[]> {
  const page = await read('docs/operate/troubleshooting.md')
  return [...page.matchAll(/`([^`\n]+)`/g)].map(([, name]) => name ?? '')
}

test('the troubleshooting page names every alert that means a fault, and only existing alerts', async () => {
  const named = new Set((await namesOnPage()).filter((name) => /^Symphony[A-Z]\w+$/.test(name)))
  const known = ALERT_RULES.map(({ name }) => name)
  expect([...named].filter((name) => !known.includes(name))).toEqual([])
  expect(known.filter((name) => !named.has(name))).toEqual([
    'SymphonyAllPaused',
    'SymphonyDlqGrowing',
    'SymphonyUnknownRailCodes',
  ])
})

test('every metric and log line on the troubleshooting page exists', async () => {
  const [metrics, events, sqlstates] = await Promise.all(
    ['docs/reference/metrics.md', 'libs/observability/eventLog.ts', 'libs/db/sqlstates.ts'].map(read),
  )
  const settings = new Set(['notify_enabled', 'max_connections'])
  const named = (await namesOnPage()).filter((name) => /^[a-z]+(_[a-z]+)+$/.test(name) && !settings.has(name))
  const known = (name: string) =>
    [metrics, events, sqlstates].some((text) => text?.includes(name)) || name.startsWith('rail_breaker_')
  expect(named.length).toBeGreaterThan(30)
  expect(named.filter((name) => !known(name))).toEqual([])
})
