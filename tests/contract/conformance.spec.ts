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

describe('the conformance check', () => {
  test('covers the 38 scenarios of the specification', () => {
    expect(CONFORMANCE_IDS).toHaveLength(38)
    expect(new Set(CONFORMANCE_IDS).size).toBe(38)
  })

  test('finds no problem if each scenario has a passing test and docs/conformance.md is current', () => {
    expect(conformanceProblems(complete, conformancePage(complete))).toEqual([])
  })

  test('takes the scenario id from the title of a test or of its describe', () => {
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

  test('reports a scenario without a test, even if another title mentions its id', () => {
    const report = reportOf([...CONFORMANCE_IDS.slice(1).map((id) => `${id} holds`), `see ${CONFORMANCE_IDS[0]}`])
    expect(conformanceProblems(report, conformancePage(report))).toEqual([`${CONFORMANCE_IDS[0]} has no test`])
  })

  test('reports an id that the specification does not have', () => {
    const report = reportOf([...CONFORMANCE_IDS.map((id) => `${id} holds`), 'PRIM-POSTGRES-OUTBOX-007 is new'])
    expect(conformanceProblems(report, conformancePage(report))).toEqual([
      'PRIM-POSTGRES-OUTBOX-007 is no scenario of the specification',
    ])
  })

  test('reports a docs/conformance.md that was written from another test report', () => {
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
