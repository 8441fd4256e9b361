import { describe, expect, test } from 'vitest'
import { CONFORMANCE_IDS } from '../../scripts/conformance.mjs'
import { caughtBy, mutantsPage, notCaught, readCaught } from '../../scripts/mutants/page.mjs'
import { readMutants, staleness } from '../../scripts/mutants/plan.mjs'

const mutants = readMutants()

describe('the mutation tests', () => {
  test('have only mutants that still apply to the code', () => {
    const stale = mutants.flatMap((mutant) => {
      const reason = staleness(mutant)
      return reason === undefined ? [] : [`${mutant.bug} (${mutant.file}): ${reason}`]
    })
    expect(stale).toEqual([])
  })

  test('have at least 60 mutants with unique names, and one for every conformance scenario', () => {
    expect(mutants.length).toBeGreaterThanOrEqual(60)
    expect(new Set(mutants.map(({ bug }) => bug)).size).toBe(mutants.length)
    expect(mutants.filter(({ file }) => file.startsWith('schema/')).length).toBeGreaterThanOrEqual(30)
    expect(mutants.filter(({ file }) => file.startsWith('libs/')).length).toBeGreaterThanOrEqual(20)
    const scenarios = new Set(mutants.map(({ id }) => id))
    expect(CONFORMANCE_IDS.filter((id) => !scenarios.has(id))).toEqual([])
  })

  test('report a stale mutant: its text is missing, ambiguous or unchanged, or its test is missing', () => {
    const [mutant] = mutants
    expect(staleness({ ...mutant!, find: 'no such text in it' })).toBe('its text is there 0 times, not once')
    expect(staleness({ ...mutant!, find: '\n' })).toMatch(/^its text is there \d+ times, not once$/)
    expect(staleness({ ...mutant!, replace: mutant!.find })).toBe('it changes nothing')
    expect(staleness({ ...mutant!, test: 'tests/unit/gone.spec.ts' })).toBe('there is no tests/unit/gone.spec.ts')
  })

  test('keep a caught mutant in mutants.md after later runs, and do not count a survivor as caught', () => {
    const [one, two, three] = mutants
    const all = [one!, two!, three!]
    const first = mutantsPage('', all, new Map([[one!.bug, caughtBy('tests/a.spec.ts', 'it | holds')]]))
    expect(first).toContain('**1 of 3 caught.**')
    const second = mutantsPage(first, all, new Map([[two!.bug, notCaught('SURVIVED')]]))
    expect(second).toContain('**1 of 3 caught.**')
    expect(second).toContain('it \\| holds (`tests/a.spec.ts`)')
    expect(second).toContain('| **SURVIVED** |')
    expect([...readCaught(second)]).toEqual([one!.bug])
    expect(mutantsPage(second, [two!], new Map())).not.toContain('tests/a.spec.ts')
  })
})
