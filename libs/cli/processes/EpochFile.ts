import { readFile, rename, writeFile } from 'node:fs/promises'
import { AppError, hasCode, isUuid } from '../../core/index.js'
import type { EpochKeeper, EpochMemory } from '../../outbox/index.js'

/**
 * The last heartbeat that a worker was told of, in a file that outlives it: a database that is put back to an older state
 * while no worker runs is noticed by the next one. The file must not be part of what is restored.
 */
export class EpochFile implements EpochKeeper {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  async load(): Promise<EpochMemory | undefined> {
    let text: string
    try {
      text = await readFile(this.#path, 'utf8')
    } catch (error) {
      if (hasCode(error, 'ENOENT')) return undefined
      throw this.#unreadable(error)
    }
    const memory = parse(text)
    if (memory === undefined) throw this.#unreadable()
    return memory
  }

  /** Whole or not at all: a reader finds the old content or the new. */
  async save({ epochId, beatNo, beatAt }: EpochMemory): Promise<void> {
    const unfinished = `${this.#path}.${process.pid}.tmp`
    await writeFile(
      unfinished,
      `${JSON.stringify({ epochId, beatNo: String(beatNo), beatAt: beatAt.toISOString() })}\n`,
    )
    await rename(unfinished, this.#path)
  }

  #unreadable(cause?: unknown): AppError {
    return new AppError('MEMORY_UNREADABLE', `The file of --memory-file cannot be read: ${this.#path}.`, {
      ...(cause === undefined ? {} : { cause }),
      remedy:
        'If the database was not restored since this worker last ran, delete the file; else: symphony freeze place.',
    })
  }
}

function parse(text: string): EpochMemory | undefined {
  const [, epochId, beatNo, beatAt] = SHAPE.exec(text) ?? []
  if (epochId === undefined || beatNo === undefined || beatAt === undefined) return undefined
  const at = new Date(beatAt)
  return isUuid(epochId) && !Number.isNaN(at.getTime()) ? { epochId, beatNo: BigInt(beatNo), beatAt: at } : undefined
}

const SHAPE = /^\{"epochId":"([0-9a-f-]{36})","beatNo":"(\d{1,18})","beatAt":"([0-9TZ:.-]{1,30})"\}\n$/
