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
  /** Signed block; undefined if no block is new. */
  readonly signed: { readonly block: string; readonly blockHash: string } | undefined
  readonly blocksVerified: number
  readonly openRows: number
  /** Number of lines in the file, including the new one. */
  readonly checkpoints: number
}

/**
 * Verifies the blocks after the last checkpoint and signs the newest block. Refuses a ledger that fails verification,
 * or whose signed block is missing (restored, truncated) or replaced.
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
    if (first !== undefined) throw refused(`${breakCount} places do not match, the first: ${describeBreak(first)}`)
    if (blocks === 0 || head === undefined) {
      return { signed: undefined, blocksVerified: 0, openRows, checkpoints: lines.length }
    }
    await appendToFile(file, `${signCheckpoint(head, lines, privateKey)}\n`)
    const signed = { block: String(head.no), blockHash: head.hash }
    return { signed, blocksVerified: blocks, openRows, checkpoints: lines.length + 1 }
  })
}

/** Returns the lines of the file; none if it does not exist. Refuses an incomplete last line. */
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
      `the last line of ${file} is incomplete`,
      'If a crash interrupted the write, delete the text after the last line end.',
    )
  }
  return lines
}

/** Reads the lines. Refuses a missing or empty file, because without checkpoints every ledger would pass. */
export async function requiredCheckpointLines(file: string): Promise<string[]> {
  const lines = await readCheckpointLines(file)
  if (lines.length > 0) return lines
  throw new SymphonyError('CHECKPOINTS_MISSING', `There are no checkpoints in ${file}.`, {
    remedy: 'Name the file that symphony ledger checkpoint writes.',
  })
}

/** Returns the block of the last checkpoint. Throws if that block is not the signed one. */
async function requireSigned(source: LedgerSource, { block, blockHash: signedHash }: Checkpoint): Promise<Block> {
  for await (const found of source.blocks(BigInt(block) - 1n)) {
    if (found.no !== BigInt(block)) break
    if (found.hash === signedHash && blockHash(found) === signedHash) return found
    throw refused(`block ${block} is not the one that was signed: history was rewritten since, or forked`)
  }
  throw refused(`block ${block} was signed and is missing: the ledger was restored to an earlier state, or truncated`)
}

/**
 * Holds a lock file while the body runs. Each line contains the hash of the line before it, so two concurrent writers
 * would break the chain for ever.
 */
async function withLock<T>(file: string, body: () => Promise<T>): Promise<T> {
  const lock = `${file}.lock`
  try {
    await createFile(lock, `${process.pid}\n`)
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
    throw new SymphonyError('CHECKPOINT_BUSY', `another checkpoint is being written: ${lock} exists`, {
      remedy: 'Wait for it. If no other checkpoint is running, a crash left this file: delete it.',
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
    'Keep the database and the file as they are, and run symphony ledger verify --checkpoints.',
  )
}
