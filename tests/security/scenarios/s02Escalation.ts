import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S2',
  title:
    'A stolen runtime login tries to gain rights: SET ROLE, search_path, temporary tables, operators, casts, default privileges, advisory locks, NOTIFY floods, rules, COPY, large objects.',
  bar: 'At least 60 attempts; 0 succeed; every row and object is unchanged.',
  sizes: { full: { attempts: 60 }, short: { attempts: 60 } },
  async run(fixture, { attempts }) {
    const tried = await runSpec(fixture, 'tests/security/escalation.spec.ts', {})
    const shadowed = await runSpec(fixture, 'tests/security/temporaryTableAttack.spec.ts', {})
    const count = Number(/escalation: (\d+) attempts/.exec(tried.output)?.[1] ?? 0)
    const tooFew = count < attempts ? [`${count} attempts were made`] : []
    return {
      figures: { attempts: count, tests: tried.passed + shadowed.passed },
      defects: [...tried.defects, ...shadowed.defects, ...tooFew],
    }
  },
})
