import { randomUUID } from 'node:crypto'
import { closeSync, fdatasync, fsyncSync, mkdirSync, openSync, readSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { StringDecoder } from 'node:string_decoder'
import { promisify } from 'node:util'
import { SymphonyError, systemClock, type Clock } from '../../core/index.js'
import { decodeLine, encodeLines, type BookLine } from './readBook.js'
import type { BookPage, BookPayment, BookReceipt, RailBook } from './RailBook.js'

interface Waiting {
  readonly payment: BookPayment
  readonly resolve: (receipt: BookReceipt) => void
  readonly reject: (error: unknown) => void
}

/**
 * Rail book in a file. Any number of processes may append to it at once, and any of them may be killed at any moment.
 *
 * The book needs no lock. Each payment is a line, written with O_APPEND by one call, so the kernel orders the lines of
 * all processes. With `once`, only the first line of a reference is a payment: after a write and a sync to disk, a
 * process reads the lines before its own and answers with the first line of the reference. A process that is killed
 * before its line is complete has paid nothing; one that is killed later has paid.
 */
export class FileRailBook implements RailBook {
  readonly #fd: number
  readonly #clock: Clock
  /** Rail reference of the first line, by Symphony's reference. */
  readonly #firstLines = new Map<string, string>()
  readonly #waiting: Waiting[] = []
  readonly #chunk = Buffer.alloc(CHUNK_BYTES)
  readonly #decoder = new StringDecoder('utf8')
  #bytesRead = 0
  #unfinished = ''
  #working: Promise<void> | undefined

  constructor(file: string, clock: Clock = systemClock) {
    this.#clock = clock
    mkdirSync(dirname(file), { recursive: true })
    this.#fd = openSync(file, 'a+')
    syncFolder(dirname(file))
  }

  pay(payment: BookPayment): Promise<BookReceipt> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ payment, resolve, reject })
      this.#working ??= this.#workOff()
    })
  }

  async find(reference: string): Promise<string | undefined> {
    this.#readOn()
    return this.#firstLines.get(reference)
  }

  /** Returns the payments of one chunk. Skips lines of repeated requests, which paid nothing. */
  async page(from: number): Promise<BookPage> {
    this.#readOn()
    const bytes = readSync(this.#fd, this.#chunk, 0, CHUNK_BYTES, from)
    const end = this.#chunk.subarray(0, bytes).lastIndexOf('\n') + 1
    const entries = this.#chunk
      .toString('utf8', 0, end)
      .split('\n')
      .flatMap((text) => {
        const line = decodeLine(text)
        if (line === undefined || (line.once && this.#firstLines.get(line.reference) !== line.railReference)) return []
        const { once: _once, ...entry } = line
        return [entry]
      })
    return { entries, next: end === 0 ? null : from + end }
  }

  async close(): Promise<void> {
    await this.#working
    closeSync(this.#fd)
  }

  /** Writes all waiting payments at once. Payments that arrive during a write wait for the next write and its sync. */
  async #workOff(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0)
      try {
        await this.#payAll(batch)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#working = undefined
  }

  async #payAll(batch: readonly Waiting[]): Promise<void> {
    this.#readOn()
    const now = this.#clock.now()
    const lines = new Map<Waiting, BookLine>()
    const begun = new Set<string>()
    const inTime = new Set(batch.filter(({ payment }) => now < payment.notAfter))
    for (const waiting of inTime) {
      const { reference, once } = waiting.payment
      if (once && (this.#firstLines.has(reference) || begun.has(reference))) continue
      begun.add(reference)
      lines.set(waiting, lineOf(waiting.payment, now))
    }
    if (lines.size > 0) this.#append([...lines.values()])
    // Syncs the lines of other processes too. An answer may repeat such a line, which must then survive a crash.
    await syncToDisk(this.#fd)
    this.#readOn()
    for (const waiting of batch) {
      waiting.resolve(inTime.has(waiting) ? this.#receipt(waiting.payment, lines.get(waiting)) : { paid: false })
    }
  }

  #append(lines: readonly BookLine[]): void {
    const bytes = encodeLines(lines)
    if (writeSync(this.#fd, bytes) !== bytes.length) {
      throw new SymphonyError('RAIL_BOOK_WRITE_SHORT', 'the rail book was written only in part; the disk may be full')
    }
  }

  #receipt({ reference, once }: BookPayment, line: BookLine | undefined): BookReceipt {
    const railReference = (once ? this.#firstLines.get(reference) : undefined) ?? line?.railReference
    if (railReference === undefined)
      throw new SymphonyError('RAIL_BOOK_LINE_LOST', 'a line of the rail book is missing')
    return { paid: true, railReference, repeated: railReference !== line?.railReference }
  }

  /** Reads the lines that any process has added. A text without a line feed is incomplete. */
  #readOn(): void {
    for (;;) {
      const bytes = readSync(this.#fd, this.#chunk, 0, CHUNK_BYTES, this.#bytesRead)
      if (bytes === 0) return
      this.#bytesRead += bytes
      const texts = (this.#unfinished + this.#decoder.write(this.#chunk.subarray(0, bytes))).split('\n')
      this.#unfinished = texts.pop() ?? ''
      for (const text of texts) {
        const line = decodeLine(text)
        if (line !== undefined && !this.#firstLines.has(line.reference)) {
          this.#firstLines.set(line.reference, line.railReference)
        }
      }
    }
  }
}

const CHUNK_BYTES = 65_536

const syncToDisk = promisify(fdatasync)

function lineOf({ reference, amount, currency, once }: BookPayment, now: Date): BookLine {
  return { reference, railReference: `sim-${randomUUID()}`, amount, currency, once, at: now.toISOString() }
}

/** Syncs the folder, because the name of a new file must survive a power cut too. */
function syncFolder(folder: string): void {
  // Windows cannot sync a folder, and does not need to.
  if (process.platform === 'win32') return
  const fd = openSync(folder, 'r')
  fsyncSync(fd)
  closeSync(fd)
}
