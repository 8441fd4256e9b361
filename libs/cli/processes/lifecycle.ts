import { pino, type Logger } from 'pino'
import { SymphonyError } from '../../core/index.js'
import { DatabaseError } from '../../db/index.js'
import { logEvents, type Metrics } from '../../observability/index.js'
import type { AnySymphony } from '../../symphony/index.js'
import { sleep } from '../../worker/index.js'
import type { Settings } from '../settings/settings.js'

/**
 * Logs JSON lines to stderr, because stdout is for results. Writes synchronously, so that a crash loses no line. A full
 * disk loses lines: it must not end a worker between the call of a rail and its outcome.
 */
export function createLog(level: Settings['logLevel'], name: string): Logger {
  const destination = pino.destination({ dest: 2, sync: true, maxLength: UNWRITTEN_BYTES_MAX })
  destination.on('error', () => {})
  return pino({ level, base: { name, pid: process.pid } }, destination)
}

const UNWRITTEN_BYTES_MAX = 1_048_576

/** Waits until the signal aborts. The timer keeps the process alive. */
export async function untilAborted(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await sleep(DAY_MS, signal)
}

const DAY_MS = 86_400_000

/** Returns a signal that aborts when standard input closes, so that a child stops if its parent is killed. */
export function stdinClosed(): AbortSignal {
  const closed = new AbortController()
  process.stdin.once('close', () => closed.abort()).once('error', () => closed.abort())
  process.stdin.resume()
  return closed.signal
}

/**
 * Errors that a retry does not resolve: a missing privilege, a missing role, or a pooler that does not keep the role.
 */
const REFUSALS: ReadonlySet<string> = new Set(['INSUFFICIENT_PRIVILEGE', 'ROLE_UNAVAILABLE', 'TRANSACTION_POOLER'])

/**
 * Aborts `signal` at the first error by which the database refuses this process. If the process kept retrying, it would
 * look healthy and send nothing.
 */
export class RefusalWatch {
  readonly #refused = new AbortController()
  #refusal: DatabaseError | undefined

  /** Watches the events of a Symphony, and connects them to the log and the metrics. */
  static of({ events }: AnySymphony, log: Logger, metrics: Metrics | undefined): RefusalWatch {
    const watch = new RefusalWatch()
    for (const listener of [metrics?.onEvent, logEvents(log), watch.onEvent]) {
      if (listener !== undefined) events.on('*', listener)
    }
    return watch
  }

  get signal(): AbortSignal {
    return this.#refused.signal
  }

  readonly onEvent = (event: { readonly type: string; readonly error?: unknown }): void => {
    if (!event.type.endsWith('.fault') || !(event.error instanceof DatabaseError) || !REFUSALS.has(event.error.code))
      return
    this.#refusal ??= event.error
    this.#refused.abort()
  }

  throwIfRefused(): void {
    const refusal = this.#refusal
    if (refusal === undefined) return
    if (refusal.code !== 'INSUFFICIENT_PRIVILEGE') throw refusal
    throw new SymphonyError('FUNCTION_NOT_EXECUTABLE', `The database refuses a function: ${refusal.message}.`, {
      remedy: 'Run symphony deploy, which grants every right that a process needs, and start this process again.',
    })
  }
}
