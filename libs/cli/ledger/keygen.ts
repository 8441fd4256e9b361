import { AppError } from '../../core/index.js'
import { createCheckpointKeys } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import type { GivenFlags } from '../resolveSettings.js'
import { requiredFlag } from './checkpointFiles.js'

export async function runKeygen(flags: GivenFlags, cli: Cli): Promise<void> {
  const key = requiredFlag(flags, 'key', '--key')
  const publicKey = requiredFlag(flags, 'publicKey', '--public-key')
  try {
    await createCheckpointKeys(key, publicKey)
  } catch (error) {
    throw new AppError('KEYGEN_FAILED', `The keys cannot be written to ${key} and ${publicKey}.`, {
      cause: error,
      remedy: 'Name files that do not exist yet, in a folder that you may write.',
    })
  }
  if (flags['json'] === true) return cli.terminal.printJson({ key, publicKey })
  cli.terminal.print(`The private key is in ${key}: keep it where the database’s administrators cannot read it.`)
  cli.terminal.print(`The public key is in ${publicKey}: give it to whoever verifies.`)
}
