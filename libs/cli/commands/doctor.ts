import type { Command } from 'commander'
import { AppError } from '../../core/index.js'
import { doctor, type Diagnosis, type Finding } from '../../deployment/index.js'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addDatabaseSettings, resolveDatabase, type DatabaseFlags } from '../targetDatabase.js'
import { countOf } from '../countOf.js'

interface DoctorCommandOptions extends DatabaseFlags {
  readonly full?: boolean
  readonly json?: boolean
}

/** `symphony doctor`: is the database still what was deployed, and does its data keep the promises? */
export function registerDoctor(program: Command, cli: Cli): void {
  addDatabaseSettings(
    program.command('doctor').description('compare a database with what this release deploys; changes nothing'),
  )
    .option('--full', 'look at every item, not only at the newest')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The login must be a member of symphony_auditor, or a superuser. The exit code is 1 if anything was found that is
more than a mention.

Examples:
  symphony doctor --full
  symphony doctor --json | jq '.findings[].code'`,
    )
    .action((options: DoctorCommandOptions) => runDoctor(options, cli))
}

async function runDoctor(options: DoctorCommandOptions, cli: Cli): Promise<void> {
  const diagnosis = await doctor({
    ...(await resolveDatabase(options, cli)),
    full: options.full === true,
  })
  if (options.json === true) cli.terminal.printJson(diagnosis)
  else printDiagnosis(diagnosis, cli)
  requireHealth(diagnosis)
}

/** One finding per paragraph: what it is about, what should be there, what is, and what to do. */
export function printDiagnosis({ schema, ok, findings }: Diagnosis, { terminal }: Cli): void {
  for (const { severity, code, object, expected, found, remedy } of findings) {
    terminal.print(`${colored(severity, terminal.colors)} ${terminal.colors.dim(code)} ${object}`)
    terminal.print(`  expected   ${expected}`)
    terminal.print(`  found      ${found}`)
    terminal.print(`  what to do ${remedy}`)
  }
  if (ok) terminal.print(`The schema ${schema} is what this release deploys.`)
}

/** The findings were printed; this makes the shell see them. */
export function requireHealth({ ok, schema, findings }: Diagnosis): void {
  if (ok) return
  const count = findings.filter(({ severity }) => severity !== 'mention').length
  throw new AppError(
    'DOCTOR_FOUND_DRIFT',
    `The schema ${schema} is not what was deployed: ${countOf(count, 'finding')}.`,
    {
      remedy: 'Go through the findings above; each says what to do.',
    },
  )
}

function colored(severity: Finding['severity'], colors: Cli['terminal']['colors']): string {
  return severity === 'mention' ? colors.yellow(severity) : colors.red(severity)
}
