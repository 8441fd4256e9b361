import { Option, type Command } from 'commander'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addExamples } from '../examples.js'
import { addSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'

/** `symphony ledger`: for auditors. */
export function registerLedger(program: Command, cli: Cli): void {
  const ledger = addExamples(program.command('ledger'), 'symphony ledger verify --json').description(
    'the ledger, for auditors',
  )
  registerVerify(ledger, cli)
  registerCheckpoint(ledger, cli)
  registerKeygen(ledger, cli)
  registerExport(ledger, cli)
}

function registerVerify(ledger: Command, cli: Cli): void {
  addSettings(
    ledger
      .command('verify')
      .description(
        'recompute every hash and check what must always hold, against checkpoints and the rail’s book if given',
      ),
    TARGET,
  )
    .addOption(checkpointsOption())
    .addOption(publicKeyOption())
    .option('--export <folder>', 'verify this export instead of a database')
    .option('--book <file>', 'the book of a simulated rail; without it I3, I4 and I5 cannot be judged')
    .option('--drained', 'check also that nothing but held items is left (I10)')
    .option(
      '--textfile <file>',
      'write the number of broken hashes as a metric, for node_exporter’s textfile collector',
    )
    .addOption(jsonOption())
    .addHelpText('after', VERIFY_HELP)
    .action(async (flags: GivenFlags) => (await import('../ledger/verify.js')).runVerify(flags, cli))
}

const VERIFY_HELP = `
Each finding names its place: table, item or scope, attempt or event, block. Without checkpoints, whoever can write to the
database as a superuser could have rewritten all of it; with them, everything after the last one. What is open is said.

The result is recorded in the database (not with --export, not on a standby), and every process raises or ends its alert by it.

The login must be a member of symphony_auditor. Exit codes: 0 everything holds, 1 something was found (or the checkpoints, the
export or a key cannot be used), 2 the command line is wrong, 3 no database.

Examples:
  symphony ledger verify
  symphony ledger verify --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem
  symphony ledger verify --export ./ledger-2026-11 --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem
  symphony ledger verify --book .symphony/rail-book.ndjson --json`

function registerCheckpoint(ledger: Command, cli: Cli): void {
  addSettings(
    ledger.command('checkpoint').description('verify the blocks since the last checkpoint, and sign the newest'),
    TARGET,
  )
    .requiredOption('--key <file>', 'the private key, which only you can read; made by ledger keygen')
    .requiredOption('--out <file>', 'the file of checkpoints; a line is added to it')
    .addOption(jsonOption())
    .addHelpText('after', CHECKPOINT_HELP)
    .action(async (flags: GivenFlags) => (await import('../ledger/checkpoint.js')).runCheckpoint(flags, cli))
}

const CHECKPOINT_HELP = `
Keep key and file where whoever administers the database cannot write. A ledger that contradicts the last checkpoint (restored,
truncated, forked) is not signed: exit code 1. Without a new block nothing is added, and the exit code is 0.

Examples:
  symphony ledger checkpoint --key /secure/checkpoint.pem --out /secure/checkpoints.ndjson`

function registerKeygen(ledger: Command, cli: Cli): void {
  addExamples(
    ledger.command('keygen'),
    'symphony ledger keygen --key /secure/checkpoint.pem --public-key checkpoint-public.pem',
  )
    .description('make a pair of Ed25519 keys for checkpoints; existing files are never replaced')
    .requiredOption('--key <file>', 'where the private key goes (mode 0600)')
    .requiredOption('--public-key <file>', 'where the public key goes, for whoever verifies')
    .addOption(jsonOption())
    .action(async (flags: GivenFlags) => (await import('../ledger/keygen.js')).runKeygen(flags, cli))
}

function registerExport(ledger: Command, cli: Cli): void {
  addSettings(
    ledger
      .command('export')
      .description('write the whole ledger as text into a new folder, to be verified without a database'),
    TARGET,
  )
    .requiredOption('--out <folder>', 'a folder that does not exist yet')
    .addOption(checkpointsOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
It holds payloads: let few read it. The login must be a member of symphony_auditor.

Examples:
  symphony ledger export --out ./ledger-2026-11 && symphony ledger verify --export ./ledger-2026-11`,
    )
    .action(async (flags: GivenFlags) => (await import('../ledger/export.js')).runExport(flags, cli))
}

export function checkpointsOption(): Option {
  return new Option('--checkpoints <file>', 'the file of checkpoints')
}

export function publicKeyOption(): Option {
  return new Option('--public-key <file>', 'the public key of the checkpoints')
}
