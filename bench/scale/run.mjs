// Measures how cost grows with backlog, ledger, writers and processes: `npm run bench:scale`. Each case measures some
// rows of the page's table and compares them with their bounds. A full run needs a quiet machine for an hour or more
// and 25 GB of disk; `--max-rows` and `--only` measure less.
import { machine, runId } from '../page.mjs'
import { CASES } from './cases.mjs'
import { OptionsError, readOptions, USAGE } from './options.mjs'
import { writeReport } from './report.mjs'
import { ScaleFixture } from './ScaleFixture.mjs'

const options = optionsOrExit()
const fixture = await ScaleFixture.open()
try {
  const about = { run: runId(), machine: `${machine()} · PostgreSQL ${await fixture.serverVersion()}` }
  const measured = []
  for (const name of options.cases) {
    const printLine = (line) => print(`${name}: ${line}`)
    const filledLedger = (payments) => fixture.filledLedger(payments, printLine)
    const result = await CASES[name]({ ...options.sizing, fixture, filledLedger, print: printLine })
    measured.push({ name, ...about, reduced: options.reduced, ...result })
    // Writes after each case, so that a later failure loses no result.
    if (options.write) await writeReport(measured.slice(-1))
  }
  const figures = measured.flatMap(({ name, figures: ofCase }) => ofCase.map((figure) => ({ case: name, ...figure })))
  for (const { figure, bound, measured: value, ok } of figures)
    print(`${ok ? 'met    ' : 'NOT MET'} ${figure}: ${value} (${bound})`)
  if (options.json)
    print(JSON.stringify({ ...about, reduced: options.reduced, ok: figures.every(({ ok }) => ok), figures }))
} finally {
  await fixture.close()
}

function optionsOrExit() {
  try {
    return readOptions(process.argv.slice(2))
  } catch (error) {
    if (!(error instanceof OptionsError)) throw error
    process.stderr.write(`${error.message}\n\n${USAGE}\n`)
    process.exit(2)
  }
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
