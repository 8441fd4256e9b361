import { boundedInteger } from '../core/index.js'
import { BlockContents, rootOf } from './BlockContents.js'
import { blockHash, isAfter, positionOf, type Block, type BlockHead, type Position } from './blocks.js'
import { breakOfRow, BreakTally, type LedgerBreak } from './breaks.js'
import { contentDefect, type LedgerRow, type RowKind } from './chain.js'
import type { Checkpoint } from './checkpoints.js'
import type { LedgerSource } from './LedgerSource.js'
import { OpenChains } from './OpenChains.js'
import { verifyLinks } from './verifyLinks.js'

export interface VerifyOptions {
  /** Signed heads of blocks, already held against their key. */
  readonly checkpoints?: readonly Checkpoint[]
  /** A block that is trusted: only what follows it is verified, and the links of single payments are not. */
  readonly after?: Block | undefined
  /**
   * How many payments are followed from row to row at a time. Of a ledger where more than that have begun and not ended, the links
   * are read a second time: fewer take less memory and more time. @default 100000
   */
  readonly chainsAtOnce?: number
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
  /** Undefined where the links are not verified. */
  readonly #chains: OpenChains | undefined
  /** By block, those not met yet. */
  readonly #awaited: Map<string, Checkpoint[]>
  #blocks = 0
  #blocksSinceCheckpoint = 0
  #rowsSeen = 0
  #total = 0

  constructor(source: LedgerSource, options: VerifyOptions) {
    this.#source = source
    this.#options = options
    const chainsAtOnce = boundedInteger('chainsAtOnce', options.chainsAtOnce ?? 100_000, { min: 1, max: 10_000_000 })
    this.#chains = options.after === undefined ? new OpenChains(chainsAtOnce) : undefined
    this.#awaited = groupByBlock(options.checkpoints)
  }

  async run(total: number): Promise<LedgerReport> {
    this.#total = total
    const head = await this.#verifyBlocks()
    const openRows = await this.#verifyOpenRows(head?.last ?? null)
    if (this.#chains !== undefined) await this.#verifyLinks(this.#chains)
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
    const contents = new BlockContents(block.rowCount)
    for await (const rows of this.#source.rowsBetween(after, block.last)) {
      for (const row of rows) {
        this.#verifyRow(row, block)
        contents.add(row)
      }
    }
    const found = [...contents.differencesFrom(block, complete)]
    for (const one of found) this.#tally.add(one)
    if (found.length > 0 || !complete) return
    if (contents.root() !== block.root) this.#addBlock(block, 'root differs from that of its rows')
    else if (contents.count !== block.rowCount) this.#addBlock(block, 'count differs from that of its rows')
  }

  async #verifyOpenRows(after: Position | null): Promise<number> {
    let count = 0
    for await (const rows of this.#source.openRows(after)) {
      for (const row of rows) {
        this.#verifyRow(row, undefined)
        if (after !== null && !isAfter(positionOf(row), after))
          this.#addRow(row, null, 'lies behind the last block, in none')
      }
      count += rows.length
    }
    return count
  }

  #verifyRow(row: LedgerRow, block: Block | undefined): void {
    this.#counts[row.kind] += 1
    this.#options.onRow?.(row)
    this.#chains?.see(row)
    const why = contentDefect(row)
    if (why !== undefined) this.#addRow(row, block === undefined ? null : String(block.no), why)
    this.#progress()
  }

  /** Only of chains with something odd about them; of all, if those are too many to name. */
  async #verifyLinks(chains: OpenChains): Promise<void> {
    const suspects = chains.areTooMany ? undefined : chains.suspects
    if (suspects === undefined) this.#total *= 2
    else if (suspects.items.size + suspects.events.size === 0) return
    for await (const found of verifyLinks(this.#source.links(suspects), () => this.#progress())) this.#tally.add(found)
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
