import { Option } from 'commander'
import { AppError, InvalidArgumentError } from '../../../core/index.js'
import type { Queryable } from '../../../db/index.js'
import {
  beginSnapshot,
  readCheckpointLines,
  readCheckpoints,
  readPublicKey,
  type Checkpoint,
  type RailEffect,
} from '../../../ledger/index.js'
import { withTarget } from '../../database/target.js'
import type { GivenFlags } from '../../settings/resolveSettings.js'
import type { TargetSettings } from '../../settings/settings.js'
import { ProgressBar, type Cli } from '../../terminal/Terminal.js'

/** A long ledger takes its time, statement by statement, and holds up nobody. */
const STATEMENT_TIMEOUT_MS = 1_800_000

/**
 * Reads the ledger as it is at one moment. Behind a transaction pooler there is no such moment to be had: each read is then of
 * its own, which is enough to verify what is not being rewritten.
 */
export function readLedger<T>(settings: TargetSettings, body: (auditor: Queryable) => Promise<T>): Promise<T> {
  const timeouts = { statementTimeoutMs: STATEMENT_TIMEOUT_MS, idleInTransactionTimeoutMs: STATEMENT_TIMEOUT_MS }
  return withTarget(
    settings,
    'ledger',
    (database) => {
      const auditor = database.as('symphony_auditor')
      if (settings.pooler === 'transaction') return body(auditor)
      return auditor.transaction(async (tx) => {
        await beginSnapshot(tx)
        return body(tx)
      })
    },
    timeouts,
  )
}

/** Draws a bar for a person who is looking; takes it away at the end, whatever happens. */
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

export function checkpointsOption(): Option {
  return new Option('--checkpoints <file>', 'the file of checkpoints')
}

export function publicKeyOption(): Option {
  return new Option('--public-key <file>', 'the public key of the checkpoints')
}

/** Reads a rail book for the auditor: one entry per payment that the rail made. Only `--book` needs the rails module. */
export async function readRailEffects(bookFile: string): Promise<readonly RailEffect[]> {
  const { readBook } = await import('../../../rails/index.js')
  const effects: RailEffect[] = []
  for (const { reference, railReference, count } of (await readBook(bookFile)).values()) {
    for (let time = 0; time < count; time += 1) effects.push({ reference, railReference })
  }
  return effects
}
