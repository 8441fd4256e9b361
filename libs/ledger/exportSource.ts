import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Block, isAfter, type Position } from './blocks.js'
import {
  CHECKPOINTS_FILE,
  EXPORT_FILES,
  ExportError,
  type ExportManifest,
  MANIFEST_FILE,
  writeManifest,
} from './exportLedger.js'
import { readBlock, readRow } from './exportLines.js'
import { type Format, NEWEST_FORMAT } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import type { LedgerSource } from './LedgerSource.js'

/** Opened export, whose files match the manifest. */
export interface OpenedExport {
  readonly source: LedgerSource
  readonly manifest: ExportManifest
  /** Text of the exported checkpoints. */
  readonly checkpoints: string | undefined
}

export async function openExport(folder: string): Promise<OpenedExport> {
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
    source: new ExportSource(folder, manifest),
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
  const { format, version, blocks, rows, openRows, nextTransaction, files } = {
    format: '',
    version: 0,
    blocks: 0,
    openRows: 0,
    nextTransaction: '',
    ...read,
  }
  if (format !== 'symphony ledger export' || version !== 1) return undefined
  if (![blocks, rows, openRows].every((count) => Number.isSafeInteger(count))) return undefined
  if (typeof files !== 'object' || files === null || !/^\d{1,19}$/.test(nextTransaction)) return undefined
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
    nextTransaction,
    files: Object.fromEntries(sums),
  }
  // Compares all bytes, so that every change of the manifest is noticed.
  return writeManifest(manifest) === text ? manifest : undefined
}

class ExportSource implements LedgerSource {
  readonly #folder: string
  readonly #manifest: ExportManifest
  /** Lines of the file of sealed rows. Calls ask for rows in the order of the file, so the file is read only once. */
  #sealed: AsyncGenerator<Line, undefined> | undefined
  /** Line that was read but belongs to a later block. The next call returns it. */
  #next: Line | undefined

  constructor(folder: string, manifest: ExportManifest) {
    this.#folder = folder
    this.#manifest = manifest
  }

  count(): Promise<number> {
    return Promise.resolve(this.#manifest.rows + this.#manifest.openRows)
  }

  nextXid(): Promise<bigint> {
    return Promise.resolve(BigInt(this.#manifest.nextTransaction))
  }

  async *blocks(afterNo: bigint): AsyncGenerator<Block> {
    for await (const { text, number } of this.#lines(EXPORT_FILES.blocks)) {
      const block = readBlock(text) ?? refuseLine(EXPORT_FILES.blocks, number)
      if (block.no > afterNo) yield block
    }
  }

  async *rowsBetween(after: Position | null, last: Position, format: Format): AsyncGenerator<readonly LedgerRow[]> {
    if (after === null) {
      this.#sealed = undefined
      this.#next = undefined
    }
    for await (const row of this.#sealedRows(format, last)) yield [row]
  }

  /**
   * Returns the rows that remain in the file of sealed rows after the last block, then the open rows. The verifier
   * checks the position of each row.
   */
  async *openRows(): AsyncGenerator<readonly LedgerRow[]> {
    for await (const row of this.#sealedRows(NEWEST_FORMAT)) yield [row]
    for await (const { text, number } of this.#lines(EXPORT_FILES.open)) {
      yield [readRow(text, NEWEST_FORMAT) ?? refuseLine(EXPORT_FILES.open, number)]
    }
  }

  async *#sealedRows(format: Format, last?: Position): AsyncGenerator<LedgerRow> {
    this.#sealed ??= this.#lines(EXPORT_FILES.rows)
    for (;;) {
      const { value: line } = this.#next === undefined ? await this.#sealed.next() : { value: this.#next }
      this.#next = undefined
      if (line === undefined) return
      const row = readRow(line.text, format) ?? refuseLine(EXPORT_FILES.rows, line.number)
      if (last !== undefined && isAfter(row, last)) {
        this.#next = line
        return
      }
      yield row
    }
  }

  async *#lines(name: string): AsyncGenerator<Line, undefined> {
    let number = 0
    for await (const text of readLines(join(this.#folder, name))) yield { text, number: (number += 1) }
    return undefined
  }
}

interface Line {
  readonly text: string
  readonly number: number
}

function refuseLine(name: string, number: number): never {
  throw new ExportError(`line ${number} of ${name} is not what an export writes`)
}

async function hashOfFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(path)) hash.update(chunk)
  return hash.digest('hex')
}

/** Reads lines that end with a line feed. node:readline also splits at U+2028, which JSON may contain unescaped. */
async function* readLines(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(path, { encoding: 'utf8' })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
