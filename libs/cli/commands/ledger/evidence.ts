import type { Command } from 'commander'
import { checkEvidence, EvidenceError } from '../../../ledger/index.js'
import { printDiagnosis } from '../../database/diagnosis.js'
import { addExamples, jsonOption } from '../../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../../settings/resolveSettings.js'
import { TARGET } from '../../settings/settings.js'
import { countOf, type Cli } from '../../terminal/Terminal.js'
import {
  checkpointsOf,
  checkpointsOption,
  publicKeyOption,
  requiredFlag,
  textFlag,
  withLedger,
  withProgress,
} from './withLedger.js'
import { printReport } from './verify.js'

export function registerEvidence(program: Command, cli: Cli): void {
  const evidence = addSettings(
    program.command('evidence').description('write an evidence bundle: the deployed schema and the verified ledger'),
    TARGET,
  )
    .option('--out <folder>', 'new folder for the bundle')
    .option('--key <file>', 'sign the manifest with this private key')
    .addOption(checkpointsOption())
    .addOption(publicKeyOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => runEvidence(flags, cli))
  addExamples(
    evidence.command('check <folder>'),
    'symphony evidence check ./evidence',
    'symphony evidence check ./evidence --public-key signer-public.pem --json',
  )
    .description('check a bundle without a database: its bytes are unchanged, and its parts agree')
    .option('--public-key <file>', 'public key of the signature of the bundle')
    .addOption(jsonOption())
    .action((folder: string, _flags: GivenFlags, command: Command) =>
      runEvidenceCheck(folder, command.optsWithGlobals(), cli),
    )
}

const HELP = `
The same state of the database gives the same bytes. Nothing is written, and the exit code is 1, if the schema is not
what was deployed (symphony doctor) or the ledger is broken (symphony ledger verify). The login must be a member of
symphony_auditor.

Examples:
  symphony evidence --out ./evidence --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem --key signer.pem
  symphony evidence check ./evidence`

async function runEvidence(flags: GivenFlags, cli: Cli): Promise<void> {
  const folder = requiredFlag(flags, 'out', '--out')
  const privateKey = textFlag(flags, 'key')
  const options = { folder, ...checkpointsOf(flags), ...(privateKey === undefined ? {} : { privateKey }) }
  const settings = await resolveSettings(TARGET, flags, cli)
  const written = await withProgress(cli, 'rows hashed again', (onProgress) =>
    withLedger(settings, (ledger) => ledger.writeEvidence({ ...options, onProgress })),
  ).catch((error: unknown) => {
    if (error instanceof EvidenceError) printFindings(error, flags, cli)
    throw error
  })
  if (flags['json'] === true) return cli.terminal.printJson({ folder, ...written })
  cli.terminal.print(`${written.files} files are in ${folder}. The SHA-256 of its manifest, to be kept elsewhere:`)
  cli.terminal.print(`  ${written.sha256}`)
  cli.terminal.print(`To check it: symphony evidence check ${folder}`)
}

/** Prints the findings that prevented a bundle, because no file contains them. */
function printFindings({ found }: EvidenceError, { json }: GivenFlags, cli: Cli): void {
  if (found === undefined) return
  if (json === true) return cli.terminal.printJson({ ok: false, ...found })
  if (!found.doctor.ok) printDiagnosis(found.doctor, cli)
  if (!found.audit.ok) printReport(found.audit, cli)
}

async function runEvidenceCheck(folder: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const publicKey = textFlag(flags, 'publicKey')
  const check = await checkEvidence({ folder, ...(publicKey === undefined ? {} : { publicKey }) })
  if (flags['json'] === true) return cli.terminal.printJson({ folder, ok: true, ...check })
  const { files, sha256, signed, blocks, checkpoints, reconciliations } = check
  cli.terminal.print(
    `${folder}: ${countOf(files, 'file is', 'files are')} unchanged, ${countOf(blocks, 'block')} in order,`,
  )
  cli.terminal.print(
    `${countOf(checkpoints, 'checkpoint fits', 'checkpoints fit')}, ${countOf(reconciliations, 'reconciliation agrees', 'reconciliations agree')}. The SHA-256 of the manifest is ${sha256}`,
  )
  cli.terminal.print(signed ? 'It is signed with the key you gave.' : 'Its author is not verified: no key was given.')
}
