import { readFile } from 'node:fs/promises'
import { Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { createProgram } from '../../libs/cli/program.js'
import { SETTINGS } from '../../libs/cli/settings/settings.js'
import { cliReference } from '../../libs/cli/terminal/surface.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { PROBLEMS } from '../../libs/http/index.js'
import { HTTP_STATUS_OUTCOMES, runRailContract, SIMULATED_BEHAVIOURS, type Rail } from '../../libs/rails/index.js'
import { eventsReference } from '../../scripts/eventsReference.mjs'
import { schemaReference } from '../../scripts/schemaReference.mjs'
import { markdownPage } from '../support/markdownPage.js'
import { PAYABLE } from '../support/railRequest.js'

/** Compares pages of the documentation with the code that they describe. */

test('docs/reference/events.md matches the sources', async () => {
  const page = await readFile(new URL('../../docs/reference/events.md', import.meta.url), 'utf8')
  // After a failure, run `node scripts/eventsReference.mjs` and review the change for readers of logs.
  expect(page).toBe(await eventsReference())
})

test('docs/internals/schema.md matches the manifest and the schema files', async () => {
  const page = await readFile(new URL('../../docs/internals/schema.md', import.meta.url), 'utf8')
  // After a failure, run `npm run schema:snapshot`.
  expect(page).toBe(schemaReference())
  // Each index that no constraint needs must have a COMMENT that names the query it serves.
  expect(page.match(/^- `.*`: $/gm) ?? []).toEqual([])
})

test('docs/reference/cli.md matches the program', async () => {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = new Terminal({ stdout: silent, stderr: silent, env: {} })
  const program = await createProgram(['node', 'symphony'], {
    env: {},
    terminal,
    signal: new AbortController().signal,
  })
  const page = await readFile(new URL('../../docs/reference/cli.md', import.meta.url), 'utf8')
  expect(page === cliReference(program), 'run node scripts/cliReference.mjs').toBe(true)
})

test('docs/reference/options.md has a row with key, flag, variable and default of every setting', () => {
  const page = markdownPage('docs/reference/options.md')
  const rows = Object.entries(SETTINGS).map(([name, { flag, env, default: value }]) => {
    const cells = [
      `\`${name}\``,
      flag === undefined ? '' : `\`${flag}\``,
      `\`${env}\``,
      value === undefined ? '' : `\`${value}\``,
    ]
    return `| ${cells.join(' | ')} |`.replace(/ +\|/g, ' |')
  })
  expect(rows.length).toBeGreaterThan(0)
  expect(rows.filter((row) => !page.includes(row))).toEqual([])
})

test('docs/reference/http.md has a row for every problem code, with its status', () => {
  const rows = markdownPage('docs/reference/http.md').matchAll(/^\| `([A-Z_]+)` \| (\d{3}) \|/gm)
  expect([...rows].map(([, code, status]) => [code, Number(status)])).toEqual(
    Object.entries(PROBLEMS).map(([code, { status }]) => [code, status]),
  )
})

test('docs/comparison.md names an existing test for each row of the table of dashboards', async () => {
  const [, table = '', list = ''] =
    /^## Dashboards\n(.*?)^### Browser tests[^\n]*\n(.*?)^## /ms.exec(markdownPage('docs/comparison.md')) ?? []
  const rows = [...table.matchAll(/^\| (?![-|])(\S[^|]*) \|/gm)].map(([, first]) => first)
  const entries = list.replaceAll(/\n {2}/g, ' ').matchAll(/^- ([^:]+): (.+)$/gm)
  const named: string[] = []
  const missing: string[] = []
  for (const [, row = '', tests = ''] of entries) {
    named.push(row)
    let source = ''
    for (const [, spec, title = ''] of tests.matchAll(/`([^`]+)`|"([^"]+)"/g)) {
      if (spec !== undefined) source = await readFile(new URL(`../${spec}.spec.ts`, import.meta.url), 'utf8')
      else if (!source.includes(`'${title}',`)) missing.push(`${row}: ${title}`)
    }
    if (source === '') missing.push(row)
  }
  expect(missing).toEqual([])
  expect(named).toEqual(rows)
  expect(rows.length).toBeGreaterThan(10)
})

describe('the pages about rails', () => {
  test('writing-a-rail.md shows a rail that passes the contract test', async () => {
    const [, source = ''] = /```js\n(.*?)```/s.exec(markdownPage('docs/coding/writing-a-rail.md')) ?? []
    const { default: rails }: { default: Rail[] } = await import(`data:text/javascript,${encodeURIComponent(source)}`)
    const refusedPayload = { ...PAYABLE, amount: '9999999999.99' }
    const results = await Promise.all(rails.map((rail) => runRailContract(rail, { payload: PAYABLE, refusedPayload })))
    expect(results).toHaveLength(1)
  })

  test('http-rail.md lists each HTTP status with its outcome', () => {
    const page = markdownPage('docs/coding/http-rail.md')
    for (const outcome of ['terminal', 'retryable']) {
      const statuses = Object.entries(HTTP_STATUS_OUTCOMES).filter(([, listed]) => listed === outcome)
      expect(page).toContain(`| ${statuses.map(([status]) => status).join(', ')} | ${outcome}`)
    }
  })

  test('testing.md names every behaviour of the simulated rail', () => {
    const page = markdownPage('docs/coding/testing.md')
    for (const behaviour of SIMULATED_BEHAVIOURS) expect(page).toContain(`\`${behaviour}\``)
  })
})
