import { blockHash, ENTRY, isAfter, readEntries, rootOf, type Block, type BlockHead, type Position } from './blocks.js'
import { breakOfRow, BreakTally, placeOf, type LedgerBreak } from './breaks.js'
import type { Checkpoint } from './checkpoints.js'
import { FORMATS, TABLE_OF, type RowKind } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import type { LedgerSource } from './LedgerSource.js'

export interface VerifyOptions {
  /** Checkpoints with verified signatures. */
  readonly checkpoints?: readonly Checkpoint[]
  /** Trusted block. Only later rows and blocks are verified. */
  readonly after?: Block | undefined
  /** Called for every row, for checks other than hashes. */
  readonly onRow?: (row: LedgerRow) => void
  readonly onProgress?: (done: number, total: number) => void
}

export interface LedgerReport {
  readonly identities: number
  readonly attempts: number
  readonly events: number
  readonly blocks: number
  /** Head of the last block; undefined if there is none. */
  readonly head: BlockHead | undefined
  /** Number of rows that no block covers yet. A change of such a row leaves no trace. */
  readonly openRows: number
  readonly checkpoints: number
  /** Number of blocks after the last checkpoint. A superuser could rewrite such a block unnoticed. */
  readonly openBlocks: number
  /** First hundred breaks. */
  readonly breaks: readonly LedgerBreak[]
  readonly breakCount: number
}

/** Recomputes every hash of the ledger and reports each row, block and checkpoint that does not match. */
export async function verifyLedger(source: LedgerSource, options: VerifyOptions = {}): Promise<LedgerReport> {
  const verification = new Verification(source, options)
  return verification.run(await source.count())
}

class Verification {
  readonly #source: LedgerSource
  readonly #options: VerifyOptions
  readonly #tally = new BreakTally()
  readonly #counts: Record<RowKind, number> = { identity: 0, attempt: 0, event: 0 }
  /** Checkpoints that were not compared yet, by the number of their block. */
  readonly #awaited: Map<string, Checkpoint[]>
  #blocks = 0
  #blocksSinceCheckpoint = 0
  #rowsSeen = 0
  #total = 0

  constructor(source: LedgerSource, options: VerifyOptions) {
    this.#source = source
    this.#options = options
    this.#awaited = groupByBlock(options.checkpoints)
  }

  async run(total: number): Promise<LedgerReport> {
    this.#total = total
    const head = await this.#verifyBlocks()
    const openRows = await this.#verifyOpenRows(head?.last ?? null)
    await this.#verifyReconciliations()
    const { identity, attempt, event } = this.#counts
    return {
      identities: identity,
      attempts: attempt,
      events: event,
      blocks: this.#blocks,
      head: head && { no: head.no, hash: head.hash, sealedAt: head.sealedAt },
      openRows,
      checkpoints: this.#options.checkpoints?.length ?? 0,
      openBlocks: this.#blocksSinceCheckpoint,
      breaks: this.#tally.shown,
      breakCount: this.#tally.count,
    }
  }

  async #verifyBlocks(): Promise<Block | undefined> {
    let previous = this.#options.after
    if (previous !== undefined) this.#meetCheckpoints(previous)
    for await (const block of this.#source.blocks(previous?.no ?? 0n)) {
      this.#blocks += 1
      this.#blocksSinceCheckpoint += 1
      const follows = block.no === (previous?.no ?? 0n) + 1n
      if (!follows) this.#addBlock(block, 'number missing: the block before it is missing')
      else if (block.prevHash !== (previous?.hash ?? null)) this.#addBlock(block, 'does not follow its predecessor')
      if (blockHash(block) !== block.hash || rootOf(block.entries) !== block.root) {
        this.#addBlock(block, 'content differs from its hash')
      }
      await this.#verifyRows(block, previous?.last ?? null, follows)
      this.#meetCheckpoints(block)
      previous = block
    }
    this.#missCheckpoints(previous)
    return previous
  }

  /** @param complete true if the previous block is known, so that every row without an entry is a break */
  async #verifyRows(block: Block, after: Position | null, complete: boolean): Promise<void> {
    const format = FORMATS.get(block.format)
    if (format === undefined) {
      this.#addBlock(block, `format ${block.format} is unknown: a newer release wrote it, or it was changed`)
      return
    }
    const contents = new BlockContents(block)
    for await (const rows of this.#source.rowsBetween(after, block.last, format)) {
      for (const row of rows) {
        this.#seeRow(row)
        contents.add(row)
      }
    }
    const found = [...contents.differences(complete)]
    for (const one of found) this.#tally.add(one)
    if (found.length > 0 || !complete) return
    if (!contents.isSame) this.#addBlock(block, 'its rows are in another order than its entries, or duplicated')
    else if (contents.count !== block.rowCount) this.#addBlock(block, 'count differs from that of its rows')
  }

  async #verifyOpenRows(after: Position | null): Promise<number> {
    let count = 0
    for await (const rows of this.#source.openRows(after)) {
      // Reads the next transaction number after the rows, so that every genuine row has a lower number.
      const nextXid = await this.#source.nextXid()
      for (const row of rows) {
        this.#seeRow(row)
        if (after !== null && !isAfter(row, after))
          this.#tally.add(breakOfRow(row, null, 'lies before the end of the last block, but in no block'))
        else if (row.xid >= nextXid) this.#tally.add(breakOfRow(row, null, 'names a transaction that has not begun'))
      }
      count += rows.length
    }
    return count
  }

  /** Compares the reconciliation tables with the ledger events, unless verification starts at a trusted block. */
  async #verifyReconciliations(): Promise<void> {
    if (this.#options.after !== undefined) return
    for (const { table, subject, why } of (await this.#source.reconciliationBreaks?.()) ?? []) {
      const position = table === 'reconciliation_closings' ? 'finding' : 'run'
      this.#tally.add({ table, block: null, subject, position, why })
    }
  }

  #seeRow(row: LedgerRow): void {
    this.#counts[row.kind] += 1
    this.#options.onRow?.(row)
    this.#rowsSeen += 1
    if (this.#rowsSeen % ROWS_PER_PROGRESS === 0) this.#options.onProgress?.(this.#rowsSeen, this.#total)
  }

  #meetCheckpoints(block: Block): void {
    for (const checkpoint of this.#awaited.get(String(block.no)) ?? []) {
      if (checkpoint.blockHash !== block.hash) {
        this.#addCheckpoint(checkpoint, `another block ${block.no} was signed: history was rewritten since, or forked`)
      }
      this.#blocksSinceCheckpoint = 0
    }
    this.#awaited.delete(String(block.no))
  }

  #missCheckpoints(head: Block | undefined): void {
    for (const checkpoint of [...this.#awaited.values()].flat()) {
      // Skips checkpoints before the trusted block: they were compared before that block was signed.
      if (BigInt(checkpoint.block) < (this.#options.after?.no ?? 0n)) continue
      this.#addCheckpoint(
        checkpoint,
        `block ${checkpoint.block} was signed and is missing: the ledger ends at block ${head?.no ?? 0n}, as after a restore or a truncation`,
      )
    }
  }

  #addBlock(block: Block, why: string): void {
    const position = `block ${block.no}`
    this.#tally.add({ table: 'payment_outbox_blocks', block: String(block.no), subject: position, position, why })
  }

  #addCheckpoint({ line, block }: Checkpoint, why: string): void {
    this.#tally.add({ table: 'checkpoints', block, subject: `line ${line}`, position: `line ${line}`, why })
  }
}

/** Rows in the range of a block, compared with the entries of the block. */
class BlockContents {
  readonly #block: Block
  #entries: Buffer
  /** Rows that differ from the entry at their position, to name them in a break. */
  readonly #names = new Map<number, Pick<LedgerBreak, 'subject' | 'position'>>()
  count = 0

  constructor(block: Block) {
    this.#block = block
    this.#entries = Buffer.allocUnsafe(block.entries.length + ENTRY.bytes)
  }

  add(row: LedgerRow): void {
    const at = this.count * ENTRY.bytes
    if (at + ENTRY.bytes > this.#entries.length) this.#entries = Buffer.concat([this.#entries, this.#entries])
    row.writeEntry(this.#entries, at)
    if (!isSameEntry(this.#entries, this.#block.entries, at))
      this.#names.set(this.count, { subject: row.subject, position: placeOf(row) })
    this.count += 1
  }

  /** Whether the entries made from the rows equal the entries of the block, byte by byte. */
  get isSame(): boolean {
    return this.#found.equals(this.#block.entries)
  }

  get #found(): Buffer {
    return this.#entries.subarray(0, this.count * ENTRY.bytes)
  }

  *differences(complete: boolean): Generator<LedgerBreak> {
    if (this.isSame) return
    const block = String(this.#block.no)
    const present = new Map(readEntries(this.#found).map((entry, index) => [entry.key, { ...entry, index }]))
    const sealed = new Map(readEntries(this.#block.entries).map((entry) => [entry.key, entry]))
    for (const { key, kind, id, content } of sealed.values()) {
      const row = present.get(key)
      if (row === undefined) {
        const table = kind === undefined ? 'payment_outbox_blocks' : TABLE_OF[kind]
        yield { table, block, subject: id, position: `${kind ?? 'row'} with this id`, why: 'sealed, and missing' }
      } else if (row.content !== content) {
        yield { table: TABLE_OF[row.kind!], block, ...this.#names.get(row.index)!, why: 'differs from what was sealed' }
      }
    }
    if (!complete) return
    for (const { key, kind, index } of present.values()) {
      if (sealed.has(key)) continue
      yield {
        table: TABLE_OF[kind!],
        block,
        ...this.#names.get(index)!,
        why: 'was not there when its block was sealed',
      }
    }
  }
}

/** Compares byte by byte, which is faster than a native call for a few bytes. */
function isSameEntry(left: Buffer, right: Buffer, at: number): boolean {
  for (let index = at; index < at + ENTRY.bytes; index += 1) if (left[index] !== right[index]) return false
  return true
}

function groupByBlock(checkpoints: readonly Checkpoint[] = []): Map<string, Checkpoint[]> {
  const groups = new Map<string, Checkpoint[]>()
  for (const checkpoint of checkpoints) {
    const group = groups.get(checkpoint.block)
    if (group === undefined) groups.set(checkpoint.block, [checkpoint])
    else group.push(checkpoint)
  }
  return groups
}

const ROWS_PER_PROGRESS = 500
