import { checkEvidence, readPublicKey } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { textFlag } from '../ledger/checkpointFiles.js'
import type { GivenFlags } from '../resolveSettings.js'
import { countOf } from '../countOf.js'

export async function runEvidenceCheck(folder: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const key = textFlag(flags, 'publicKey')
  const check = await checkEvidence(folder, key === undefined ? undefined : await readPublicKey(key))
  if (flags['json'] === true) return cli.terminal.printJson({ folder, ok: true, ...check })
  const { files, sha256, signed, blocks, checkpoints } = check
  cli.terminal.print(
    `${folder}: ${countOf(files, 'file is as it was', 'files are as they were')} written, ${countOf(blocks, 'block')} in order,`,
  )
  cli.terminal.print(
    `${countOf(checkpoints, 'checkpoint fits', 'checkpoints fit')}. The SHA-256 of the manifest is ${sha256}`,
  )
  cli.terminal.print(signed ? 'It is signed with the key you gave.' : 'Who wrote it is not proven: no key was given.')
}
