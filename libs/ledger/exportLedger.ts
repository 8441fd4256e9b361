import { createHash, randomUUID } from 'node:crypto'
import { mkdir, open, rename, rm, rmdir, type FileHandle } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { SymphonyError } from '../core/index.js'
import type { Block } from './blocks.js'
import { createFile, syncFolder } from './durableFile.js'
import { writeBlock, writeRow } from './exportLines.js'
import { FORMATS } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import type { LedgerSource } from './LedgerSource.js'

export class ExportError extends SymphonyError {
  constructor(message: string, cause?: unknown) {
    super('EXPORT_BROKEN', message, { cause, remedy: 'Compare the folder with its copies, or export again.' })
  }
}

/** Contents of an export, and the SHA-256 of each file. */
export interface ExportManifest {
  readonly format: 'symphony ledger export'
  readonly version: 1
  readonly blocks: number
  readonly rows: number
  /** Rows that no block covered at the export. */
  readonly openRows: number
  /** Next transaction number at the export. Every row has a lower one. */
  readonly nextTransaction: string
  readonly files: Readonly<Record<string, string>>
}

/** Returns the text of the manifest. Its last member is the SHA-256 of the other members. */
export function writeManifest(manifest: ExportManifest): string {
  const digest = createHash('sha256').update(JSON.stringify(manifest)).digest('hex')
  return `${JSON.stringify({ ...manifest, digest }, null, 2)}\n`
}

export const MANIFEST_FILE = 'manifest.json'
export const EXPORT_FILES = Object.freeze({ blocks: 'blocks.ndjson', rows: 'rows.ndjson', open: 'open.ndjson' })
export const CHECKPOINTS_FILE = 'checkpoints.ndjson'

export interface ExportOptions {
  /** Text of a checkpoint file, to be stored beside the rows. */
  readonly checkpoints?: string
  readonly onProgress?: (done: number, total: number) => void
}

/**
 * Writes the whole ledger as text to a new folder, for verification without the database. The folder gets its final
 * name when complete. For a ledger in use, pass a source with one snapshot.
 */
export async function exportLedger(
  source: LedgerSource,
  folder: string,
  { checkpoints, onProgress }: ExportOptions = {},
): Promise<ExportManifest> {
  return intoNewFolder(folder, async (unfinished) => {
    const total = await source.count()
    let done = 0
    const tick = () => {
      done += 1
      if (done % ROWS_PER_PROGRESS === 0) onProgress?.(done, total)
    }
    const blocks = await LineFile.create(join(unfinished, EXPORT_FILES.blocks))
    const rows = await LineFile.create(join(unfinished, EXPORT_FILES.rows))
    let previous: Block | undefined
    for await (const block of source.blocks(0n)) {
      await blocks.write(writeBlock(block))
      const format = FORMATS.get(block.format)
      if (format === undefined)
        throw new ExportError(`block ${block.no} has the format ${block.format}, which is unknown`)
      await writeRows(rows, source.rowsBetween(previous?.last ?? null, block.last, format), tick)
      previous = block
    }
    const unsealed = await LineFile.create(join(unfinished, EXPORT_FILES.open))
    await writeRows(unsealed, source.openRows(previous?.last ?? null), tick)
    const files: Record<string, string> = {
      [EXPORT_FILES.blocks]: await blocks.finish(),
      [EXPORT_FILES.open]: await unsealed.finish(),
      [EXPORT_FILES.rows]: await rows.finish(),
    }
    if (checkpoints !== undefined) {
      await createFile(join(unfinished, CHECKPOINTS_FILE), checkpoints)
      files[CHECKPOINTS_FILE] = createHash('sha256').update(checkpoints).digest('hex')
    }
    const manifest: ExportManifest = {
      format: 'symphony ledger export',
      version: 1,
      blocks: blocks.lines,
      rows: rows.lines,
      openRows: unsealed.lines,
      nextTransaction: String(await source.nextXid()),
      files,
    }
    await createFile(join(unfinished, MANIFEST_FILE), writeManifest(manifest))
    return manifest
  })
}

/** Builds a folder under a temporary name and renames it at the end, so that every non-empty folder is complete. */
export async function intoNewFolder<T>(folder: string, build: (unfinished: string) => Promise<T>): Promise<T> {
  const unfinished = join(dirname(folder), `.${basename(folder)}.${randomUUID()}`)
  await mkdir(dirname(folder), { recursive: true })
  // Reserves the name first, so that the caller learns at once if the folder exists. mkdir is atomic.
  try {
    await mkdir(folder)
  } catch (error) {
    throw new SymphonyError('FOLDER_EXISTS', `The folder ${folder} cannot be created.`, {
      cause: error,
      remedy: 'Name a folder that does not exist yet; existing folders are never overwritten.',
    })
  }
  try {
    await mkdir(unfinished)
    const result = await build(unfinished)
    await syncFolder(unfinished)
    // Replaces the empty folder. rename() fails if the folder is no longer empty.
    await rename(unfinished, folder)
    await syncFolder(dirname(folder))
    return result
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true })
    // Removes only the empty reservation. rmdir() fails if another process has put a file into the folder.
    await rmdir(folder).catch(() => {})
    throw error
  }
}

async function writeRows(file: LineFile, pages: AsyncIterable<readonly LedgerRow[]>, onRow: () => void): Promise<void> {
  for await (const rows of pages) {
    for (const row of rows) {
      await file.write(writeRow(row))
      onRow()
    }
  }
}

/** Writes lines to a file in chunks and hashes them. */
class LineFile {
  readonly #file: FileHandle
  readonly #hash = createHash('sha256')
  #waiting: string[] = []
  #waitingLength = 0
  lines = 0

  private constructor(file: FileHandle) {
    this.#file = file
  }

  static async create(path: string): Promise<LineFile> {
    return new LineFile(await open(path, 'wx', 0o600))
  }

  async write(line: string): Promise<void> {
    this.lines += 1
    this.#waiting.push(line, '\n')
    this.#waitingLength += line.length
    if (this.#waitingLength >= CHUNK_LENGTH) await this.#flush()
  }

  /** @returns the SHA-256 of the written bytes */
  async finish(): Promise<string> {
    await this.#flush()
    await this.#file.sync()
    await this.#file.close()
    return this.#hash.digest('hex')
  }

  async #flush(): Promise<void> {
    const chunk = this.#waiting.join('')
    this.#waiting = []
    this.#waitingLength = 0
    this.#hash.update(chunk)
    await this.#file.appendFile(chunk)
  }
}

const CHUNK_LENGTH = 262_144
const ROWS_PER_PROGRESS = 500
