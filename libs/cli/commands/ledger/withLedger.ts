import { Option } from 'commander'
import { InvalidArgumentError } from '../../../core/index.js'
import { openLedger, type CheckpointFiles, type Ledger, type RailEffect } from '../../../ledger/index.js'
import { withOpened } from '../../database/target.js'
import type { GivenFlags } from '../../settings/resolveSettings.js'
import type { TargetSettings } from '../../settings/settings.js'
import { ProgressBar, type Cli } from '../../terminal/Terminal.js'

export function withLedger<T>(settings: TargetSettings, body: (ledger: Ledger) => Promise<T>): Promise<T> {
  return withOpened(settings, 'ledger', openLedger, body)
}

export async function withProgress<T>(
  { terminal }: Cli,
  note: string,
  body: (onProgress: (done: number, total: number) => void) => Promise<T>,
): Promise<T> {
  let bar: ProgressBar | undefined
  try {
    return await body((done, total) => {
      bar ??= new ProgressBar(terminal, total)
      bar.show(done, note)
    })
  } finally {
    bar?.clear()
  }
}

export function checkpointsOf(flags: GivenFlags): { readonly checkpoints?: CheckpointFiles } {
  const file = textFlag(flags, 'checkpoints')
  const publicKey = textFlag(flags, 'publicKey')
  if (publicKey !== undefined && file !== undefined) return { checkpoints: { publicKey, file } }
  if (publicKey !== undefined) {
    // An export contains its own checkpoints, which are verified if --checkpoints is not given.
    if (textFlag(flags, 'export') !== undefined) return { checkpoints: { publicKey } }
    throw new InvalidArgumentError('--public-key', 'expected together with --checkpoints, which it verifies')
  }
  if (file === undefined) return {}
  throw new InvalidArgumentError(
    '--checkpoints',
    'expected together with --public-key: without it their signatures are not verified',
  )
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

export function checkpointsOption(): Option {
  return new Option('--checkpoints <file>', 'file of checkpoints')
}

export function publicKeyOption(): Option {
  return new Option('--public-key <file>', 'public key of the checkpoints')
}

/**
 * Reads a rail book for the audit. Returns one effect per payment of the rail. Imports the rails module here, because
 * only `--book` needs it.
 */
export async function readRailEffects(bookFile: string): Promise<readonly RailEffect[]> {
  const { readBook } = await import('../../../rails/index.js')
  const effects: RailEffect[] = []
  for (const { reference, railReference, count } of (await readBook(bookFile)).values()) {
    for (let time = 0; time < count; time += 1) effects.push({ reference, railReference })
  }
  return effects
}
