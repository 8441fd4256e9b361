import { hash } from 'node:crypto'
import { ENTRY, readEntries, type Block, type Entry } from './blocks.js'
import { breakOfRow, type LedgerBreak } from './breaks.js'
import { TABLE_OF, type LedgerRow } from './chain.js'

/** The rows found where a block should be, held against what it says they were. */
export class BlockContents {
  #entries: Buffer
  /** What each row is called, should there be something to say about it. */
  readonly #subjects: string[] = []
  readonly #numbers: bigint[] = []
  count = 0

  /** @param rows about as many as there will be */
  constructor(rows: number) {
    this.#entries = Buffer.allocUnsafe(ENTRY.bytes * Math.min(ROWS_MAX, Math.max(1, rows)))
  }

  add(row: LedgerRow): void {
    const at = this.count * ENTRY.bytes
    if (at + ENTRY.bytes > this.#entries.length) this.#entries = Buffer.concat([this.#entries, this.#entries])
    row.writeEntry(this.#entries, at)
    this.#subjects.push(row.subject)
    this.#numbers.push(row.number)
    this.count += 1
  }

  root(): string {
    return rootOf(this.#bytes())
  }

  *differencesFrom(block: Block, complete: boolean): Generator<LedgerBreak> {
    // To the byte, which is how nearly every block is.
    if (this.#bytes().equals(block.entries)) return
    const no = String(block.no)
    const present = new Map(readEntries(this.#bytes()).map((entry, at) => [entry.key, { entry, at }]))
    const sealed = new Map(readEntries(block.entries).map((entry) => [entry.key, entry]))
    for (const { key, kind, id, content } of sealed.values()) {
      const found = present.get(key)
      if (found === undefined) {
        const table = kind === undefined ? 'payment_outbox_blocks' : TABLE_OF[kind]
        yield { table, block: no, subject: id, position: `${kind ?? 'row'} with this id`, why: 'sealed, and missing' }
      } else if (found.entry.content !== content) {
        yield this.#breakAt(found, no, 'differs from what was sealed')
      }
    }
    if (!complete) return
    for (const found of present.values()) {
      if (!sealed.has(found.entry.key)) yield this.#breakAt(found, no, 'was not there when its block was sealed')
    }
  }

  #bytes(): Buffer {
    return this.#entries.subarray(0, this.count * ENTRY.bytes)
  }

  #breakAt({ entry, at }: { readonly entry: Entry; readonly at: number }, block: string, why: string): LedgerBreak {
    return breakOfRow({ kind: entry.kind!, subject: this.#subjects[at]!, number: this.#numbers[at]! }, block, why)
  }
}

export function rootOf(entries: Buffer): string {
  return hash('sha256', entries)
}

/** Of a block that says it has more, the room grows when they come. */
const ROWS_MAX = 100_000
