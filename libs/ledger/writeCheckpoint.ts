import { createPublicKey, type KeyObject } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { SymphonyError, hasCode } from '../core/index.js'
import { blockHash, type Block } from './blocks.js'
import { describeBreak } from './breaks.js'
import { CheckpointError, readCheckpoints, signCheckpoint, type Checkpoint } from './checkpoints.js'
import { appendToFile, createFile } from './durableFile.js'
import type { LedgerSource } from './LedgerSource.js'
import { verifyLedger, type VerifyOptions } from './verifyLedger.js'

export interface CheckpointReport {
  /** Undefined if there was no new block to sign. */
  readonly signed: { readonly block: string; readonly blockHash: string } | undefined
  readonly blocksVerified: number
  readonly openRows: number
  /** Lines of the file, the new one included. */
  readonly checkpoints: number
}

/**
 * Verifies the blocks that are new since the last checkpoint and signs the newest of them. It refuses to sign what does not hold,
 * and a ledger that contradicts the last checkpoint: one that lacks its block (restored, truncated) or has another in its place.
 */
export async function writeCheckpoint(
  source: LedgerSource,
  file: string,
  privateKey: KeyObject,
  options: Pick<VerifyOptions, 'onProgress'> = {},
): Promise<CheckpointReport> {
  return withLock(file, async () => {
    const lines = await readCheckpointLines(file)
    const checkpoints = readCheckpoints(lines, createPublicKey(privateKey))
    const last = checkpoints.at(-1)
    const after = last === undefined ? undefined : await requireSigned(source, last)
    const { head, blocks, openRows, breaks, breakCount } = await verifyLedger(source, { ...options, after })
    const [first] = breaks
    if (first !== undefined) throw refused(`${breakCount} places do not hold, the first: ${describeBreak(first)}`)
    if (blocks === 0 || head === undefined) {
      return { signed: undefined, blocksVerified: 0, openRows, checkpoints: lines.length }
    }
    await appendToFile(file, `${signCheckpoint(head, lines, privateKey)}\n`)
    const signed = { block: String(head.no), blockHash: head.hash }
    return { signed, blocksVerified: blocks, openRows, checkpoints: lines.length + 1 }
  })
}

/** No file is no line. A last line that was not written to its end is told, not mended. */
export async function readCheckpointLines(file: string): Promise<string[]> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return []
    throw error
  }
  const lines = text.split('\n')
  if (lines.pop() !== '') {
    throw new CheckpointError(
      'CHECKPOINTS_BROKEN',
      `the last line of ${file} has no end`,
      'A crash may have cut it off while it was written: then remove what is after the last line end.',
    )
  }
  return lines
}

/** Refuses a file that is missing or empty: without checkpoints nothing could contradict the ledger. */
export async function requiredCheckpointLines(file: string): Promise<string[]> {
  const lines = await readCheckpointLines(file)
  if (lines.length > 0) return lines
  throw new SymphonyError('CHECKPOINTS_MISSING', `There are no checkpoints in ${file}.`, {
    remedy: 'Name the file that symphony ledger checkpoint writes.',
  })
}

/** The block of the last checkpoint, as it was when it was signed. */
async function requireSigned(source: LedgerSource, { block, blockHash: signedHash }: Checkpoint): Promise<Block> {
  for await (const found of source.blocks(BigInt(block) - 1n)) {
    if (found.no !== BigInt(block)) break
    if (found.hash === signedHash && blockHash(found) === signedHash) return found
    throw refused(`block ${block} is not the one that was signed: history was rewritten since, or forked`)
  }
  throw refused(`block ${block} was signed and is gone: the ledger was restored to an earlier state, or truncated`)
}

/** Two that write at once would both follow the same line, and the file would be broken for ever. */
async function withLock<T>(file: string, body: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`
  try {
    await createFile(lock, `${process.pid}\n`)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
    throw new SymphonyError('CHECKPOINT_BUSY', `another checkpoint is being written: ${lock} exists`, {
      remedy: 'Wait for it. If none is running, a crash left the file: remove it.',
    })
  }
  try {
    return await body()
  } finally {
    await rm(lock, { force: true })
  }
}

function refused(why: string): CheckpointError {
  return new CheckpointError(
    'CHECKPOINT_REFUSED',
    `nothing was signed: ${why}`,
    'Keep the database and the file as they are; symphony ledger verify --checkpoints says more.',
  )
}
