import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { CONFORMANCE_IDS, conformancePage, conformanceProblems } from '../../scripts/conformance.mjs'

const root = join(import.meta.dirname, '..', '..')

interface Assertion {
  readonly ancestorTitles: readonly string[]
  readonly title: string
  readonly status: string
}

function reportOf(titles: readonly string[], status = 'passed') {
  const assertionResults: Assertion[] = titles.map((title) => ({ ancestorTitles: [], title, status }))
  return { testResults: [{ name: join(root, 'tests', 'unit', 'a.spec.ts'), assertionResults }] }
}

const complete = reportOf(CONFORMANCE_IDS.map((id) => `${id} holds`))

describe('conformance', () => {
  test('has the 38 scenarios of the specification', () => {
    expect(CONFORMANCE_IDS).toHaveLength(38)
    expect(new Set(CONFORMANCE_IDS).size).toBe(38)
  })

  test('a report with a passing test per scenario, and its own page, has no problem', () => {
    expect(conformanceProblems(complete, conformancePage(complete))).toEqual([])
  })

  test('a scenario id counts in the title of a test and in the title of its group', () => {
    const [first, second, ...others] = CONFORMANCE_IDS
    const report = reportOf(others.map((id) => `${id} holds`))
    report.testResults[0]!.assertionResults.push(
      { ancestorTitles: ['a group'], title: `${first} holds`, status: 'passed' },
      { ancestorTitles: [`${second} in short`], title: 'holds', status: 'passed' },
    )
    expect(conformanceProblems(report, conformancePage(report))).toEqual([])
    expect(conformancePage(report)).toContain('passed: a group › holds')
    expect(conformancePage(report)).toContain('passed: in short › holds')
  })

  test('a scenario without a test is a problem, even when another title mentions its id', () => {
    const report = reportOf([...CONFORMANCE_IDS.slice(1).map((id) => `${id} holds`), `see ${CONFORMANCE_IDS[0]}`])
    expect(conformanceProblems(report, conformancePage(report))).toEqual([`${CONFORMANCE_IDS[0]} has no test`])
  })

  test('an id that the specification does not have is a problem', () => {
    const report = reportOf([...CONFORMANCE_IDS.map((id) => `${id} holds`), 'PRIM-POSTGRES-OUTBOX-007 is new'])
    expect(conformanceProblems(report, conformancePage(report))).toEqual([
      'PRIM-POSTGRES-OUTBOX-007 is no scenario of the specification',
    ])
  })

  test('a page that differs from the report is a problem, such as a page with FAILED lines', () => {
    const failed = reportOf(
      CONFORMANCE_IDS.map((id) => `${id} holds`),
      'failed',
    )
    expect(conformancePage(failed)).toContain('FAILED: holds (`tests/unit/a.spec.ts`)')
    expect(conformanceProblems(complete, conformancePage(failed))).toEqual([
      'docs/conformance.md is not of this run: npm run conformance',
    ])
  })
})
