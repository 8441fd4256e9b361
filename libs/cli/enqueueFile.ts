import { open } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { AppError, parseStrictJson, PAYLOAD_DEPTH_MAX } from '../core/index.js'
import { IdempotencyConflictError, type Queryable } from '../db/index.js'
import {
  enqueueMany,
  InvalidPayloadError,
  RailWarnings,
  readInstruction,
  type EnqueuedItem,
  type EnqueueWarning,
  type InstructionSealer,
  type KnownRails,
  type OutboxInstruction,
} from '../outbox/index.js'
import type { Cli } from './Cli.js'
import { ProgressBar } from './ProgressBar.js'

export interface EnqueuedCounts {
  readonly read: number
  readonly created: number
  readonly existing: number
}

export interface EnqueuedFile extends EnqueuedCounts {
  /** One per rail without a worker. */
  readonly warnings: readonly EnqueueWarning[]
}

/** Where instructions go, and what happens to their fields on the way. */
export interface EnqueueTarget {
  readonly ingest: Queryable
  readonly rails: KnownRails
  readonly vault: InstructionSealer
}

interface NumberedInstruction {
  readonly line: number
  readonly instruction: OutboxInstruction
}

/**
 * Enqueues a file of instructions, one per line, some hundreds per transaction. Killed half-way, or stopped by a bad line, it
 * has enqueued what came before; run again, it goes on from there, because the same key is the same payment.
 */
export async function enqueueFile(file: string, target: EnqueueTarget, cli: Cli): Promise<EnqueuedFile> {
  const source = await openSource(file)
  const bar = new ProgressBar(cli.terminal, source.bytes)
  let counts: EnqueuedCounts = { read: 0, created: 0, existing: 0 }
  const waitingRails = new Set<string>()
  let bytesRead = 0
  let batch: NumberedInstruction[] = []
  const flush = async () => {
    const items = await enqueueBatch(target, batch)
    const created = items.filter((item) => item.created).length
    counts = {
      read: counts.read + items.length,
      created: counts.created + created,
      existing: counts.existing + items.length - created,
    }
    for (const [index, { instruction }] of batch.entries()) {
      if (items[index]?.state === 'PENDING') waitingRails.add(instruction.railType)
    }
    batch = []
    // How many lines are to come nobody knows; how many bytes, the file system does.
    if (source.bytes > 0) bar.show(Math.min(bytesRead, source.bytes), `bytes, ${counts.read} payments`)
  }
  try {
    let line = 0
    for await (const text of source.lines) {
      cli.signal.throwIfAborted()
      line += 1
      bytesRead += Buffer.byteLength(text) + 1
      if (text.trim() === '') continue
      batch.push({ line, instruction: readLine(text, line) })
      if (batch.length === BATCH) await flush()
    }
    if (batch.length > 0) await flush()
    return { ...counts, warnings: await new RailWarnings(target.ingest).find(waitingRails) }
  } finally {
    bar.clear()
    await source.close()
  }
}

function readLine(text: string, line: number): OutboxInstruction {
  const place = `line ${line}`
  const value = parseStrictJson(text, { argument: place, depthMax: PAYLOAD_DEPTH_MAX + 1 })
  return readInstruction(value, { place: `${place}, ` })
}

async function enqueueBatch(
  { ingest, rails, vault }: EnqueueTarget,
  batch: readonly NumberedInstruction[],
): Promise<EnqueuedItem[]> {
  try {
    return await enqueueMany(
      batch.map(({ instruction }) => instruction),
      { tx: ingest, rails, protection: vault },
    )
  } catch (error) {
    if (error instanceof InvalidPayloadError) throw invalidIn(batch, error)
    throw error instanceof IdempotencyConflictError ? conflictIn(batch, error) : error
  }
}

/** Names the line instead of the item's place in the batch. */
function invalidIn(batch: readonly NumberedInstruction[], { code, message }: InvalidPayloadError): AppError {
  const [, index = '0', fault = message] = /^instructions\[(\d+)\]\.(.*)$/s.exec(message) ?? []
  const [first, last] = [batch[0]?.line, batch.at(-1)?.line]
  return new AppError(code, `line ${batch[Number(index)]?.line}, ${fault}`, {
    remedy: `Nothing of the lines ${first} to ${last} was enqueued. Correct the line and run the file again.`,
  })
}

/** The database says which item of the batch it was; a person wants the line. */
function conflictIn(
  batch: readonly NumberedInstruction[],
  { code, detail = '{}' }: IdempotencyConflictError,
): AppError {
  const { ordinal = 0 }: { ordinal?: number } = JSON.parse(detail)
  const [first, last] = [batch[0]?.line, batch.at(-1)?.line]
  const line = batch[ordinal - 1]?.line ?? `${first} to ${last}`
  return new AppError(
    code,
    `line ${line}: this instruction and key are known with another participant, rail or payload.`,
    {
      remedy:
        `Nothing of the lines ${first} to ${last} was enqueued; what came before them was. ` +
        'Give the new payment a key of its own, or repeat the old one as it was, and run the file again.',
    },
  )
}

interface Source {
  readonly lines: AsyncIterable<string>
  /** 0 if nobody knows. */
  readonly bytes: number
  close(): Promise<void>
}

async function openSource(file: string): Promise<Source> {
  if (file === '-') {
    return { lines: createInterface({ input: process.stdin, crlfDelay: Infinity }), bytes: 0, close: async () => {} }
  }
  try {
    const handle = await open(file)
    const { size } = await handle.stat()
    return { lines: handle.readLines(), bytes: size, close: () => handle.close() }
  } catch (error) {
    throw new AppError('FILE_UNREADABLE', `${file} cannot be read.`, { cause: error })
  }
}

const BATCH = 500
