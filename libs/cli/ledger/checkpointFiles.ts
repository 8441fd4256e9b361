import { AppError, InvalidArgumentError } from '../../core/index.js'
import { readCheckpointLines, readCheckpoints, readPublicKey, type Checkpoint } from '../../ledger/index.js'
import type { GivenFlags } from '../resolveSettings.js'

/** The checkpoints that were named, verified with the key that was named; undefined if none were. */
export async function checkpointsOf(flags: GivenFlags, exported?: string): Promise<readonly Checkpoint[] | undefined> {
  const file = textFlag(flags, 'checkpoints')
  const key = textFlag(flags, 'publicKey')
  if (file === undefined && exported === undefined) {
    if (key === undefined) return undefined
    throw new InvalidArgumentError('--public-key', 'expected together with --checkpoints, which it verifies')
  }
  if (key === undefined) {
    // Those of an export were not asked for: without a key they vouch for nothing, and that is said.
    if (file === undefined) return undefined
    throw new InvalidArgumentError(
      '--checkpoints',
      'expected together with --public-key: unsigned, they vouch for nothing',
    )
  }
  const lines = file === undefined ? linesOf(exported ?? '') : await linesIn(file)
  return readCheckpoints(lines, await readPublicKey(key))
}

/** A file that was named and is not there is a mistake: no checkpoints would pass for none that contradict. */
export async function linesIn(file: string): Promise<string[]> {
  const lines = await readCheckpointLines(file)
  if (lines.length > 0) return lines
  throw new AppError('CHECKPOINTS_MISSING', `There are no checkpoints in ${file}.`, {
    remedy: 'Name the file that symphony ledger checkpoint writes.',
  })
}

function linesOf(text: string): string[] {
  return text.split('\n').slice(0, -1)
}

export function textFlag(flags: GivenFlags, name: string): string | undefined {
  const value = flags[name]
  return typeof value === 'string' ? value : undefined
}

export function requiredFlag(flags: GivenFlags, name: string, flag: string): string {
  const value = textFlag(flags, name)
  if (value === undefined || value.trim() === '') throw new InvalidArgumentError(flag, 'expected a path')
  return value
}
