import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

const INPUTS_MIN = 500

export default defineScenario({
  id: 'S5',
  title:
    'Hostile inputs enter through SQL, TypeScript, HTTP, the command line and webhooks (tests/security/hostileAnswers.json), and as statements of a bank.',
  bar: `At least ${INPUTS_MIN} inputs per entry point; each gets its documented answer; 0 server errors, 0 crashes, 0 ledger breaks.`,
  // `every: n` tries one of n inputs.
  sizes: { full: { every: 1, statementMegabytes: 1_000 }, short: { every: 24, statementMegabytes: 10 } },
  async run(fixture, { every, statementMegabytes }) {
    const table = await runSpec(fixture, 'tests/security/hostileInputs.spec.ts', {
      SYMPHONY_TEST_HOSTILE_EVERY: String(every),
    })
    // Calls every other function with arguments that no wrapper has checked.
    const functions = await runSpec(fixture, 'tests/unit/outboxStrictInput.spec.ts', {})
    // Reads hostile statements of a bank, of which some are one line of 1 GB.
    const statements = await runSpec(fixture, 'tests/security/hostileStatements.spec.ts', {
      SYMPHONY_TEST_STATEMENT_MB: String(statementMegabytes),
    })
    const uploads = await runSpec(fixture, 'tests/unit/httpReconciliations.spec.ts', {})
    const counts = countsIn(table.output)
    const raw = Number(/strict input: (\d+) calls/.exec(functions.output)?.[1] ?? 0)
    const figures = {
      ...counts,
      sql: (counts['sql'] ?? 0) + raw,
      statements: statements.passed,
      uploads: uploads.passed,
    }
    const tooFew = Object.entries({ ...counts, sql: figures.sql }).flatMap(([way, count]) =>
      every > 1 || count >= INPUTS_MIN ? [] : [`${way}: ${count} inputs`],
    )
    const specs = [table, functions, statements, uploads]
    return { figures, defects: [...specs.flatMap(({ defects }) => defects), ...tooFew] }
  },
})

/** Parses the counts in the line `hostile inputs: sql 459, typescript 800, …`. */
function countsIn(output: string): Record<string, number> {
  const line = /hostile inputs: (.*)/.exec(output)?.[1] ?? ''
  return Object.fromEntries(
    ['sql', 'typescript', 'http', 'cli', 'webhook'].map((way) => [
      way,
      Number(new RegExp(`${way} (\\d+)`).exec(line)?.[1] ?? 0),
    ]),
  )
}
