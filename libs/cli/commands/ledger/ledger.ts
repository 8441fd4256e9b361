import type { Command } from 'commander'
import { InvalidArgumentError } from '../../../core/index.js'
import { createCheckpointKeys, rebuildLedgerProjection } from '../../../ledger/index.js'
import { addOperatorOptions, asControl, printResult } from '../../operator/operator.js'
import { addExamples, jsonOption } from '../../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../../settings/resolveSettings.js'
import { TARGET } from '../../settings/settings.js'
import { countOf, type Cli } from '../../terminal/Terminal.js'
import { runVerify } from './verify.js'
import { checkpointsOption, publicKeyOption, requiredFlag, textFlag, withLedger, withProgress } from './withLedger.js'

export function registerLedger(program: Command, cli: Cli): void {
  const ledger = addExamples(program.command('ledger'), 'symphony ledger verify --json').description(
    'verify, sign and export the ledger',
  )
  registerVerify(ledger, cli)
  registerCheckpoint(ledger, cli)
  registerKeygen(ledger, cli)
  registerExport(ledger, cli)
  registerRebuild(ledger, cli)
}

function registerVerify(ledger: Command, cli: Cli): void {
  addSettings(
    ledger
      .command('verify')
      .description('recompute every hash and check every invariant, against checkpoints and a rail book if given'),
    TARGET,
  )
    .addOption(checkpointsOption())
    .addOption(publicKeyOption())
    .option('--export <folder>', 'verify this export instead of a database')
    .option('--book <file>', 'book of a simulated rail; without it I3, I4 and I5 are not checked')
    .option('--drained', 'also check that only held items are pending (I10)')
    .option(
      '--textfile <file>',
      'write the number of broken hashes as a metric for the textfile collector of node_exporter',
    )
    .addOption(jsonOption())
    .addHelpText('after', VERIFY_HELP)
    .action((flags: GivenFlags) => runVerify(flags, cli))
}

const VERIFY_HELP = `
Each finding names its place: table, item or scope, attempt or event, block. Without checkpoints, a superuser of the
database could have rewritten the whole ledger; with them, only the rows after the last one. The output states this
window.

The result is recorded in the database (not with --export, not on a standby). Every process sets its alert by it.

The login must be a member of symphony_auditor. Exit codes: 0 everything holds, 1 a finding (or unusable checkpoints,
export or key), 2 the command line is wrong, 3 no database.

Examples:
  symphony ledger verify
  symphony ledger verify --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem
  symphony ledger verify --export ./ledger-2026-11 --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem
  symphony ledger verify --book .symphony/rail-book.ndjson --json`

function registerCheckpoint(ledger: Command, cli: Cli): void {
  addSettings(
    ledger.command('checkpoint').description('verify the blocks since the last checkpoint and sign the newest'),
    TARGET,
  )
    .requiredOption('--key <file>', 'private key from ledger keygen, readable only by you')
    .requiredOption('--out <file>', 'file of checkpoints; a line is appended')
    .addOption(jsonOption())
    .addHelpText('after', CHECKPOINT_HELP)
    .action((flags: GivenFlags) => runCheckpoint(flags, cli))
}

const CHECKPOINT_HELP = `
Keep key and file where administrators of the database cannot write. A ledger that contradicts the last checkpoint
(restored, truncated, forked) is not signed: exit code 1. Without a new block nothing is appended, and the exit code
is 0.

Examples:
  symphony ledger checkpoint --key /secure/checkpoint.pem --out /secure/checkpoints.ndjson`

function registerKeygen(ledger: Command, cli: Cli): void {
  addExamples(
    ledger.command('keygen'),
    'symphony ledger keygen --key /secure/checkpoint.pem --public-key checkpoint-public.pem',
  )
    .description('create a pair of Ed25519 keys for checkpoints; existing files are never replaced')
    .requiredOption('--key <file>', 'new file for the private key (mode 0600)')
    .requiredOption('--public-key <file>', 'new file for the public key, for verifiers')
    .addOption(jsonOption())
    .action((flags: GivenFlags) => runKeygen(flags, cli))
}

function registerExport(ledger: Command, cli: Cli): void {
  addSettings(
    ledger
      .command('export')
      .description('write the whole ledger as text to a new folder, for verification without a database'),
    TARGET,
  )
    .requiredOption('--out <folder>', 'new folder for the export')
    .addOption(checkpointsOption())
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
The export contains payloads: restrict access to it. The login must be a member of symphony_auditor.

Examples:
  symphony ledger export --out ./ledger-2026-11 && symphony ledger verify --export ./ledger-2026-11`,
    )
    .action((flags: GivenFlags) => runExport(flags, cli))
}

function registerRebuild(ledger: Command, cli: Cli): void {
  addOperatorOptions(
    ledger
      .command('rebuild')
      .description('empty the tables of search and charts; workers fill them again from the ledger'),
  )
    .option('--yes', 'confirm: until they are full again, search and charts miss payments')
    .addHelpText('after', REBUILD_HELP)
    .action((flags: GivenFlags) => runRebuild(flags, cli))
}

const REBUILD_HELP = `
The ledger itself does not change. Run it after a change of SYMPHONY_SEARCH_KEY, or when search and ledger differ.
Counts per minute and hour past their retention come back, and are removed again later.

Examples:
  symphony ledger rebuild --yes`

async function runRebuild(flags: GivenFlags, cli: Cli): Promise<void> {
  if (flags['yes'] !== true) {
    throw new InvalidArgumentError(
      '--yes',
      'expected, because search and charts miss payments until they are full again',
    )
  }
  const blocks = Number(await asControl('ledger', flags, cli, rebuildLedgerProjection))
  const sentence = `Search and charts are empty. Workers fill them again from ${countOf(blocks, 'block')}.`
  printResult({ blocks }, sentence, flags, cli)
}

async function runCheckpoint(flags: GivenFlags, cli: Cli): Promise<void> {
  const file = requiredFlag(flags, 'out', '--out')
  const privateKey = requiredFlag(flags, 'key', '--key')
  const settings = await resolveSettings(TARGET, flags, cli)
  const report = await withProgress(cli, 'rows hashed again', (onProgress) =>
    withLedger(settings, (ledger) => ledger.checkpoint({ file, privateKey, onProgress })),
  )
  const { signed, blocksVerified, openRows, checkpoints } = report
  if (flags['json'] === true) return cli.terminal.printJson(report)
  cli.terminal.print(
    signed === undefined
      ? `There is no new block to sign; ${file} has ${countOf(checkpoints, 'checkpoint')}.`
      : `Block ${signed.block} is signed, after the verification of ${countOf(blocksVerified, 'block')}: checkpoint ${checkpoints} of ${file}.`,
  )
  cli.terminal.print(`Open window: ${countOf(openRows, 'row is', 'rows are')} in no block yet.`)
}

async function runExport(flags: GivenFlags, cli: Cli): Promise<void> {
  const folder = requiredFlag(flags, 'out', '--out')
  const file = textFlag(flags, 'checkpoints')
  const checkpoints = file === undefined ? {} : { checkpoints: file }
  const settings = await resolveSettings(TARGET, flags, cli)
  const manifest = await withProgress(cli, 'rows written', (onProgress) =>
    withLedger(settings, (ledger) => ledger.export({ folder, ...checkpoints, onProgress })),
  )
  if (flags['json'] === true) return cli.terminal.printJson(manifest)
  const { rows, openRows, blocks } = manifest
  cli.terminal.print(
    `${countOf(rows, 'row')} of ${countOf(blocks, 'block')}, and ${openRows} that are in no block yet, are in ${folder}.`,
  )
  cli.terminal.print(`To verify it: symphony ledger verify --export ${folder}`)
}

async function runKeygen(flags: GivenFlags, cli: Cli): Promise<void> {
  const privateKey = requiredFlag(flags, 'key', '--key')
  const publicKey = requiredFlag(flags, 'publicKey', '--public-key')
  await createCheckpointKeys({ privateKey, publicKey })
  if (flags['json'] === true) return cli.terminal.printJson({ key: privateKey, publicKey })
  cli.terminal.print(`The private key is in ${privateKey}: keep it where the database’s administrators cannot read it.`)
  cli.terminal.print(`The public key is in ${publicKey}: give it to every verifier.`)
}
