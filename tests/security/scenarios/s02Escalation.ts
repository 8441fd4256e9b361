import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

/** `npm test` plays it in full. */
export default defineScenario({
  id: 'S2',
  title:
    'escalation from each runtime login: SET ROLE, search_path, temporary tables, operators, casts, default rights, advisory locks, NOTIFY floods, rules, COPY, large objects, …',
  bar: 'at least 60 attempts, none succeeds, every row and every object as before',
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
