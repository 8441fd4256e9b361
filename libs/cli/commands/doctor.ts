import type { Command } from 'commander'
import { doctor } from '../../deployment/index.js'
import { printDiagnosis, requireHealth } from '../database/diagnosis.js'
import { addDatabaseSettings, resolveDatabase, type DatabaseFlags } from '../database/target.js'
import { jsonOption } from '../settings/options.js'
import type { Cli } from '../terminal/Cli.js'

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
more than a note.

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
