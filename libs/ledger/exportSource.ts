import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, boundedInteger } from '../core/index.js'
import { isAfter, positionOf, type Block, type Position } from './blocks.js'
import type { LedgerRow, Link } from './chain.js'
import { readBlock, readRow } from './exportLines.js'
import { CHECKPOINTS_FILE, EXPORT_FILES, MANIFEST_FILE, type ExportManifest } from './exportLedger.js'
import type { ChainSubjects, LedgerSource } from './LedgerSource.js'
import { readLines } from './readLines.js'

export class ExportError extends AppError {
  constructor(message: string, cause?: unknown) {
    super('EXPORT_BROKEN', message, { cause, remedy: 'Compare the folder with its copies, or export again.' })
  }
}

/** An exported ledger, of which every file was held against the manifest. */
export interface OpenedExport {
  readonly source: LedgerSource
  readonly manifest: ExportManifest
  /** The checkpoints that were exported beside it, as their file had them. */
  readonly checkpoints: string | undefined
}

export interface OpenExportOptions {
  /** Rows whose links are put together at a time: fewer take less memory and more passes over the files. @default 500000 */
  readonly linksAtOnce?: number
}

export async function openExport(
  folder: string,
  { linksAtOnce = 500_000 }: OpenExportOptions = {},
): Promise<OpenedExport> {
  boundedInteger('linksAtOnce', linksAtOnce, { min: 1, max: 10_000_000 })
  const manifest = await readManifest(folder)
  const expected = [MANIFEST_FILE, ...Object.keys(manifest.files)].toSorted()
  const found = (await readdir(folder)).toSorted()
  const odd = [...found.filter((name) => !expected.includes(name)), ...expected.filter((name) => !found.includes(name))]
  if (odd.length > 0) throw new ExportError(`the folder and its manifest differ in: ${odd.join(', ')}`)
  for (const [name, sum] of Object.entries(manifest.files)) {
    if ((await hashOfFile(join(folder, name))) !== sum) throw new ExportError(`${name} is not what was exported`)
  }
  const hasCheckpoints = CHECKPOINTS_FILE in manifest.files
  return {
    source: new ExportSource(folder, manifest, linksAtOnce),
    manifest,
    checkpoints: hasCheckpoints ? await readFile(join(folder, CHECKPOINTS_FILE), 'utf8') : undefined,
  }
}

async function readManifest(folder: string): Promise<ExportManifest> {
  let text: string
  try {
    text = await readFile(join(folder, MANIFEST_FILE), 'utf8')
  } catch (error) {
    throw new ExportError(`${folder} has no ${MANIFEST_FILE} that can be read`, error)
  }
  const manifest = parseManifest(text)
  if (manifest === undefined) throw new ExportError(`${MANIFEST_FILE} is not what an export writes`)
  return manifest
}

function parseManifest(text: string): ExportManifest | undefined {
  let read: unknown
  try {
    read = JSON.parse(text)
  } catch {
    return undefined
  }
  if (typeof read !== 'object' || read === null || !('files' in read) || !('rows' in read)) return undefined
  const { format, version, blocks, rows, openRows, files } = { format: '', version: 0, blocks: 0, openRows: 0, ...read }
  if (format !== 'symphony ledger export' || version !== 1) return undefined
  if (![blocks, rows, openRows].every((count) => Number.isSafeInteger(count))) return undefined
  if (typeof files !== 'object' || files === null) return undefined
  const sums = Object.entries(files).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  const names = [...Object.values(EXPORT_FILES), CHECKPOINTS_FILE]
  if (!sums.every(([name]) => names.some((known) => known === name))) return undefined
  if (!Object.values(EXPORT_FILES).every((name) => sums.some(([given]) => given === name))) return undefined
  const manifest: ExportManifest = {
    format,
    version,
    blocks,
    rows: Number(rows),
    openRows,
    files: Object.fromEntries(sums),
  }
  // To the byte, so that there is no part of it that could be changed unnoticed.
  return `${JSON.stringify(manifest, null, 2)}\n` === text ? manifest : undefined
}

class ExportSource implements LedgerSource {
  readonly #folder: string
  readonly #manifest: ExportManifest
  readonly #linksAtOnce: number
  /** The rows of blocks are in one file, in order, and are asked for in order: it is read once. */
  #sealed: AsyncIterator<LedgerRow> | undefined
  #next: LedgerRow | undefined

  constructor(folder: string, manifest: ExportManifest, linksAtOnce: number) {
    this.#folder = folder
    this.#manifest = manifest
    this.#linksAtOnce = linksAtOnce
  }

  count(): Promise<number> {
    return Promise.resolve(this.#manifest.rows + this.#manifest.openRows)
  }

  async *blocks(afterNo: bigint): AsyncGenerator<Block> {
    for await (const block of this.#read(EXPORT_FILES.blocks, readBlock)) if (block.no > afterNo) yield block
  }

  async *rowsBetween(after: Position | null, last: Position): AsyncGenerator<readonly LedgerRow[]> {
    if (after === null) this.#sealed = undefined
    this.#sealed ??= await this.#openSealed()
    for (; this.#next !== undefined; this.#next = await this.#take()) {
      if (isAfter(positionOf(this.#next), last)) return
      yield [this.#next]
    }
  }

  /** Sealed rows that no block has asked for come first: a row behind the last block would be told by where it lies. */
  async *openRows(): AsyncGenerator<readonly LedgerRow[]> {
    this.#sealed ??= await this.#openSealed()
    for (; this.#next !== undefined; this.#next = await this.#take()) yield [this.#next]
    this.#sealed = undefined
    for await (const row of this.#read(EXPORT_FILES.open, readRow)) yield [row]
  }

  /**
   * The files are in the order of blocks, and a chain may be scattered over all of them. So they are read several times, and each
   * time the chains of some subjects are put together: memory stays bounded, whatever the size. Some chains that were asked for
   * are few enough for one time.
   */
  async *links(of?: ChainSubjects): AsyncGenerator<Link> {
    const { rows, openRows } = this.#manifest
    const parts = of === undefined ? Math.max(1, Math.ceil((rows + openRows) / this.#linksAtOnce)) : 1
    for (let part = 0; part < parts; part += 1) {
      const links: Link[] = []
      for (const file of [EXPORT_FILES.rows, EXPORT_FILES.open]) {
        for await (const row of this.#read(file, readRow)) {
          if (partOf(row.subject, parts) === part && isAmong(row, of)) links.push(linkOf(row))
        }
      }
      yield* links.toSorted(byChain)
    }
  }

  async #openSealed(): Promise<AsyncIterator<LedgerRow>> {
    const iterator = this.#read(EXPORT_FILES.rows, readRow)
    const first = await iterator.next()
    this.#next = first.done === true ? undefined : first.value
    return iterator
  }

  async #take(): Promise<LedgerRow | undefined> {
    const next = await this.#sealed?.next()
    return next === undefined || next.done === true ? undefined : next.value
  }

  async *#read<T>(name: string, parse: (line: string) => T | undefined): AsyncGenerator<T> {
    let number = 0
    for await (const line of readLines(join(this.#folder, name))) {
      number += 1
      const parsed = parse(line)
      if (parsed === undefined) throw new ExportError(`line ${number} of ${name} is not what an export writes`)
      yield parsed
    }
  }
}

function isAmong({ kind, subject }: Link, of: ChainSubjects | undefined): boolean {
  return of === undefined || (kind === 'event' ? of.events : of.items).has(subject)
}

/** Without its text, of which there may be more than fits. */
function linkOf({ kind, subject, number, prevHash, rowHash, ends }: LedgerRow): Link {
  return { kind, subject, number, prevHash, rowHash, ends }
}

/** An identity before its attempts; events apart from both. */
function byChain(left: Link, right: Link): number {
  const [leftIsEvent, rightIsEvent] = [left.kind === 'event', right.kind === 'event']
  if (leftIsEvent !== rightIsEvent) return leftIsEvent ? 1 : -1
  if (left.subject !== right.subject) return left.subject < right.subject ? -1 : 1
  return Number(left.number - right.number)
}

function partOf(subject: string, parts: number): number {
  return parts === 1 ? 0 : createHash('sha256').update(subject).digest().readUInt32BE() % parts
}

async function hashOfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}
