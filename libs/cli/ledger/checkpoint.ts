import { databaseSource, readPrivateKey, writeCheckpoint } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'
import { requiredFlag } from './checkpointFiles.js'
import { readLedger, withProgress } from './readLedger.js'
import { countOf } from '../countOf.js'

export async function runCheckpoint(flags: GivenFlags, cli: Cli): Promise<void> {
  const file = requiredFlag(flags, 'out', '--out')
  const key = await readPrivateKey(requiredFlag(flags, 'key', '--key'))
  const settings = await resolveSettings(TARGET, flags, cli)
  const report = await withProgress(cli, 'rows hashed again', (onProgress) =>
    readLedger(settings, (auditor) => writeCheckpoint(databaseSource(auditor), file, key, { onProgress })),
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
