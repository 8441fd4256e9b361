import type { Command } from 'commander'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addExamples } from '../examples.js'
import { addSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'
import { checkpointsOption, publicKeyOption } from './ledger.js'

/** `symphony evidence`: a bundle for auditors, and the check of one. */
export function registerEvidence(program: Command, cli: Cli): void {
  const evidence = addSettings(
    program.command('evidence').description('write a folder that proves what is deployed and that the ledger holds'),
    TARGET,
  )
    .option('--out <folder>', 'a folder that does not exist yet')
    .option('--key <file>', 'sign the manifest with this private key')
    .addOption(checkpointsOption())
    .addOption(publicKeyOption())
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action(async (flags: GivenFlags) => (await import('../evidence/write.js')).runEvidence(flags, cli))
  addExamples(
    evidence.command('check <folder>'),
    'symphony evidence check ./evidence',
    'symphony evidence check ./evidence --public-key checkpoint-public.pem --json',
  )
    .description('check a bundle without a database: every byte is as it was written, and its parts agree')
    .addOption(publicKeyOption())
    .addOption(jsonOption())
    .action(async (folder: string, _flags: GivenFlags, command: Command) =>
      (await import('../evidence/check.js')).runEvidenceCheck(folder, command.optsWithGlobals(), cli),
    )
}

const HELP = `
The same state of the database gives the same bytes. Nothing is written unless the schema is what was deployed (symphony doctor)
and the ledger holds (symphony ledger verify): then the exit code is 1. The login must be a member of symphony_auditor.

Examples:
  symphony evidence --out ./evidence --checkpoints checkpoints.ndjson --public-key checkpoint-public.pem
  symphony evidence check ./evidence`
