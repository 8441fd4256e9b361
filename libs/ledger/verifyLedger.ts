import { createHash, type Hash } from 'node:crypto'
import {
  blockHash,
  entryOf,
  isAfter,
  positionOf,
  readEntries,
  type Block,
  type BlockHead,
  type Entry,
  type Position,
} from './blocks.js'
import { BreakTally, type LedgerBreak } from './breaks.js'
import { contentDefect, numberOf, placeOf, subjectOf, TABLE_OF, type LedgerRow, type RowKind } from './chain.js'
import type { Checkpoint } from './checkpoints.js'
import type { LedgerSource } from './LedgerSource.js'
import { verifyLinks } from './verifyLinks.js'

export interface VerifyOptions {
  /** Signed heads of blocks, already held against their key. */
  readonly checkpoints?: readonly Checkpoint[]
  /** A block that is trusted: only what follows it is verified, and the links of single payments are not. */
  readonly after?: Block | undefined
  /** Sees every row, for judgements beside the hashes. */
  readonly onRow?: (row: LedgerRow) => void
  readonly onProgress?: (done: number, total: number) => void
}

export interface LedgerReport {
  readonly identities: number
  readonly attempts: number
  readonly events: number
  readonly blocks: number
  /** The last block. */
  readonly head: BlockHead | undefined
  /** The open window: rows that no block covers yet. What is removed of them, no block will miss. */
  readonly openRows: number
  readonly checkpoints: number
  /** Blocks that no checkpoint covers yet: who can rewrite the database can rewrite these. */
  readonly openBlocks: number
  /** The first hundred. */
  readonly breaks: readonly LedgerBreak[]
  readonly breakCount: number
}

/** Recomputes every hash of the ledger, row by row and block by block, and names each place where one does not come out. */
export async function verifyLedger(source: LedgerSource, options: VerifyOptions = {}): Promise<LedgerReport> {
  const verification = new Verification(source, options)
  return verification.run(await source.count())
}

class Verification {
  readonly #source: LedgerSource
  readonly #options: VerifyOptions
  readonly #tally = new BreakTally()
  readonly #counts: Record<RowKind, number> = { identity: 0, attempt: 0, event: 0 }
  /** By block, those not met yet. */
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
    // Rows are read twice: by themselves, and as links.
    this.#total = total * (this.#options.after === undefined ? 2 : 1)
    const head = await this.#verifyBlocks()
    const openRows = await this.#verifyOpenRows(head?.last ?? null)
    if (this.#options.after === undefined) await this.#verifyLinks()
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
      if (!follows) this.#addBlock(block, 'number missing: the block before it is gone')
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

  /** @param complete whether the block before is known, so that a row which this one does not list is one too many */
  async #verifyRows(block: Block, after: Position | null, complete: boolean): Promise<void> {
    const contents = new BlockContents()
    for await (const row of this.#source.rowsBetween(after, block.last)) {
      this.#verifyRow(row, block)
      contents.add(row)
    }
    const found = [...contents.differencesFrom(block, complete)]
    for (const one of found) this.#tally.add(one)
    if (found.length > 0 || !complete) return
    if (contents.root() !== block.root) this.#addBlock(block, 'root differs from that of its rows')
    else if (contents.count !== block.rowCount) this.#addBlock(block, 'count differs from that of its rows')
  }

  async #verifyOpenRows(after: Position | null): Promise<number> {
    let count = 0
    for await (const row of this.#source.openRows(after)) {
      this.#verifyRow(row, undefined)
      if (after !== null && !isAfter(positionOf(row), after))
        this.#addRow(row, null, 'lies behind the last block, in none')
      count += 1
    }
    return count
  }

  #verifyRow(row: LedgerRow, block: Block | undefined): void {
    this.#counts[row.kind] += 1
    this.#options.onRow?.(row)
    const why = contentDefect(row)
    if (why !== undefined) this.#addRow(row, block === undefined ? null : String(block.no), why)
    this.#progress()
  }

  async #verifyLinks(): Promise<void> {
    for await (const found of verifyLinks(this.#source.links(), () => this.#progress())) this.#tally.add(found)
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
      // What was signed before the block that is trusted was held against it when it was signed.
      if (BigInt(checkpoint.block) < (this.#options.after?.no ?? 0n)) continue
      this.#addCheckpoint(
        checkpoint,
        `block ${checkpoint.block} was signed and is gone: the ledger ends at block ${head?.no ?? 0n}, as after a restore or a truncation`,
      )
    }
  }

  #addRow(row: LedgerRow, block: string | null, why: string): void {
    this.#tally.add(breakOfRow(row, block, why))
  }

  #addBlock(block: Block, why: string): void {
    const position = `block ${block.no}`
    this.#tally.add({ table: 'payment_outbox_blocks', block: String(block.no), subject: position, position, why })
  }

  #addCheckpoint({ line, block }: Checkpoint, why: string): void {
    this.#tally.add({ table: 'checkpoints', block, subject: `line ${line}`, position: `line ${line}`, why })
  }

  #progress(): void {
    this.#rowsSeen += 1
    if (this.#rowsSeen % ROWS_PER_PROGRESS === 0) this.#options.onProgress?.(this.#rowsSeen, this.#total)
  }
}

/** The rows found where a block should be, held against what it says they were. */
class BlockContents {
  readonly #entries: Hash = createHash('sha256')
  readonly #rows = new Map<string, { readonly entry: Entry; readonly found: LedgerBreak }>()
  count = 0

  add(row: LedgerRow): void {
    const bytes = entryOf(row)
    this.#entries.update(bytes)
    this.count += 1
    for (const entry of readEntries(bytes)) {
      this.#rows.set(entry.key, { entry, found: breakOfRow(row, null, '') })
    }
  }

  root(): string {
    return this.#entries.digest('hex')
  }

  *differencesFrom(block: Block, complete: boolean): Generator<LedgerBreak> {
    const no = String(block.no)
    const sealed = new Map(readEntries(block.entries).map((entry) => [entry.key, entry]))
    for (const { key, kind, id, content } of sealed.values()) {
      const present = this.#rows.get(key)
      if (present === undefined) {
        const table = kind === undefined ? 'payment_outbox_blocks' : TABLE_OF[kind]
        yield { table, block: no, subject: id, position: `${kind ?? 'row'} with this id`, why: 'sealed, and missing' }
      } else if (present.entry.content !== content) {
        yield { ...present.found, block: no, why: 'differs from what was sealed' }
      }
    }
    if (!complete) return
    for (const [key, { found }] of this.#rows) {
      if (!sealed.has(key)) yield { ...found, block: no, why: 'was not there when its block was sealed' }
    }
  }
}

function rootOf(entries: Buffer): string {
  return createHash('sha256').update(entries).digest('hex')
}

function breakOfRow(row: LedgerRow, block: string | null, why: string): LedgerBreak {
  return { table: TABLE_OF[row.kind], block, subject: subjectOf(row), position: placeOf(row.kind, numberOf(row)), why }
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
