import { InvalidArgumentError } from '../../core/index.js'
import { databaseSource, exportLedger } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'
import { linesIn, requiredFlag, textFlag } from './checkpointFiles.js'
import { readLedger, withProgress } from './readLedger.js'
import { countOf } from '../countOf.js'

export async function runExport(flags: GivenFlags, cli: Cli): Promise<void> {
  const folder = requiredFlag(flags, 'out', '--out')
  const file = textFlag(flags, 'checkpoints')
  const checkpoints = file === undefined ? undefined : (await linesIn(file)).map((line) => `${line}\n`).join('')
  const settings = await resolveSettings(TARGET, flags, cli)
  if (settings.pooler === 'transaction') {
    throw new InvalidArgumentError('--pooler', 'expected none: an export is of one moment, which a pooler cannot keep')
  }
  const manifest = await withProgress(cli, 'rows written', (onProgress) =>
    readLedger(settings, (auditor) =>
      exportLedger(databaseSource(auditor), folder, {
        onProgress,
        ...(checkpoints === undefined ? {} : { checkpoints }),
      }),
    ),
  )
  if (flags['json'] === true) return cli.terminal.printJson(manifest)
  const { rows, openRows, blocks } = manifest
  cli.terminal.print(
    `${countOf(rows, 'row')} of ${countOf(blocks, 'block')}, and ${openRows} that are in no block yet, are in ${folder}.`,
  )
  cli.terminal.print(`To verify it: symphony ledger verify --export ${folder}`)
}
