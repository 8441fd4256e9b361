import { Command } from 'commander'
import type { Cli } from './Cli.js'
import { registerDb } from './commands/db.js'
import { registerDemo } from './commands/demo.js'
import { registerDeploy } from './commands/deploy.js'
import { registerDoctor } from './commands/doctor.js'
import { registerEnqueue } from './commands/enqueue.js'
import { registerHolds } from './commands/holds.js'
import { registerLedger } from './commands/ledger.js'
import { registerPauses } from './commands/pauses.js'
import { registerProposals } from './commands/proposals.js'
import { registerShow } from './commands/show.js'
import { registerStart } from './commands/start.js'
import { registerStatus } from './commands/status.js'
import { registerWorker } from './commands/worker.js'
import { EXIT, EXIT_CODES_HELP } from './exitCodes.js'
import { packageVersion } from './packageVersion.js'
import { reportError } from './reportError.js'

/** Every command of `symphony`: one file in commands/, one line here. */
function createProgram(cli: Cli): Command {
  const program = new Command('symphony')
    .description('Money-safe dispatch on PostgreSQL.')
    .version(packageVersion())
    .option('--debug', 'show stack traces (also: SYMPHONY_DEBUG=1)')
    .addHelpText('after', EXIT_CODES_HELP)
    // Commands made from here on inherit both: errors are thrown, and reportError is the only one to tell them.
    .exitOverride()
    .configureOutput({
      writeOut: (text) => cli.terminal.print(text.trimEnd()),
      writeErr: (text) => cli.terminal.note(text.trimEnd()),
      outputError: () => {},
    })
  registerStart(program, cli)
  registerWorker(program, cli)
  registerDemo(program, cli)
  registerDeploy(program, cli)
  registerDoctor(program, cli)
  registerEnqueue(program, cli)
  registerStatus(program, cli)
  registerShow(program, cli)
  registerHolds(program, cli)
  registerProposals(program, cli)
  registerPauses(program, cli)
  registerLedger(program, cli)
  registerDb(program, cli)
  return program
}

/** Runs one command line, as in `process.argv`, and returns its exit code. Never throws. */
export async function run(argv: readonly string[], cli: Cli): Promise<number> {
  try {
    await createProgram(cli).parseAsync(argv)
    return EXIT.ok
  } catch (error) {
    return reportError(error, {
      terminal: cli.terminal,
      // Read from the words themselves: a command line that could not be parsed has no options.
      json: argv.includes('--json'),
      debug: argv.includes('--debug') || (cli.env['SYMPHONY_DEBUG'] ?? '') !== '',
    })
  }
}
