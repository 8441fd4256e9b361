import type { Logger } from 'pino'

interface Faults {
  /** Since the last line. */
  count: number
  /** The latest. */
  write: (repeats: number) => void
}

/**
 * Bounds the log lines about faults: of each kind one at once, then at most one each minute, with the number of faults that it
 * stands for. An outage of the database would otherwise fill a disk.
 */
export class FaultLog {
  readonly #log: Logger
  readonly #intervalMs: number
  readonly #kinds = new Map<string, Faults>()

  constructor(log: Logger, intervalMs = 60_000) {
    this.#log = log
    this.#intervalMs = intervalMs
  }

  /** @param kind same kind, same line: the operation and the kind of its error, never an id */
  write(level: 'warn' | 'error', kind: string, fields: object, message: string): void {
    const write = (repeats: number) =>
      this.#log[level](repeats > 1 ? { ...fields, repeats, withinSeconds: this.#intervalMs / 1_000 } : fields, message)
    const key = `${message} ${kind}`
    const faults = this.#kinds.get(key)
    if (faults !== undefined) {
      faults.count += 1
      faults.write = write
      return
    }
    write(1)
    this.#kinds.set(key, { count: 0, write })
    this.#wait(key)
  }

  #wait(key: string): void {
    const timer = setTimeout(() => {
      const faults = this.#kinds.get(key)
      if (faults === undefined || faults.count === 0) return this.#kinds.delete(key)
      faults.write(faults.count)
      faults.count = 0
      return this.#wait(key)
    }, this.#intervalMs)
    timer.unref()
  }
}
