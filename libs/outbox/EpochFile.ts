import { readFile, rename, writeFile } from 'node:fs/promises'
import { SymphonyError, hasCode, isUuid, requiredText } from '../core/index.js'
import type { EpochRecord } from './types.js'

/**
 * Saves the last heartbeat that the database returned to a worker. If the database is restored to an older state while
 * no worker runs, the next worker detects the restore by this file. A restore of the database must not include the
 * file.
 */
export class EpochFile {
  readonly #path: string

  constructor(path: string) {
    this.#path = requiredText('epochFile', path, PATH_LENGTH_MAX)
  }

  async load(): Promise<EpochRecord | undefined> {
    let text: string
    try {
      text = await readFile(this.#path, 'utf8')
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined
      throw this.#unreadable(error)
    }
    const record = parse(text)
    if (record === undefined) throw this.#unreadable()
    return record
  }

  /** Replaces the file atomically: a reader finds either the old or the new content. */
  async save({ epochId, beatNo, beatAt }: EpochRecord): Promise<void> {
    const unfinished = `${this.#path}.${process.pid}.tmp`
    await writeFile(
      unfinished,
      `${JSON.stringify({ epochId, beatNo: String(beatNo), beatAt: beatAt.toISOString() })}\n`,
    )
    await rename(unfinished, this.#path)
  }

  #unreadable(cause?: unknown): SymphonyError {
    return new SymphonyError('EPOCH_FILE_UNREADABLE', `The epoch file cannot be read: ${this.#path}.`, {
      ...(cause === undefined ? {} : { cause }),
      remedy:
        'If the database was not restored since this worker last ran, delete the file; else: symphony freeze place.',
    })
  }
}

function parse(text: string): EpochRecord | undefined {
  const [, epochId, beatNo, beatAt] = SHAPE.exec(text) ?? []
  if (epochId === undefined || beatNo === undefined || beatAt === undefined) return undefined
  const at = new Date(beatAt)
  return isUuid(epochId) && !Number.isNaN(at.getTime()) ? { epochId, beatNo: BigInt(beatNo), beatAt: at } : undefined
}

const PATH_LENGTH_MAX = 4_096
const SHAPE = /^\{"epochId":"([0-9a-f-]{36})","beatNo":"(\d{1,18})","beatAt":"([0-9TZ:.-]{1,30})"\}\n$/
