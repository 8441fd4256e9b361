import { AppError } from '../core/index.js'
import { DatabaseError } from '../db/index.js'

/** Refusals that no retry changes: a missing right, a missing role, a pooler that keeps no role. */
const REFUSALS: ReadonlySet<string> = new Set(['INSUFFICIENT_PRIVILEGE', 'ROLE_UNAVAILABLE', 'POOLER_IN_THE_WAY'])

/**
 * Ends a process that the database does not allow to work. A process that only retried would look healthy and send nothing.
 * Its events go to `onEvent`, and `signal` is aborted by the first refusal among them.
 */
export class RefusalWatch {
  readonly #refused = new AbortController()
  #refusal: DatabaseError | undefined

  get signal(): AbortSignal {
    return this.#refused.signal
  }

  readonly onEvent = (event: { readonly type: string; readonly error?: unknown }): void => {
    if (event.type !== 'fault' || !(event.error instanceof DatabaseError) || !REFUSALS.has(event.error.code)) return
    this.#refusal ??= event.error
    this.#refused.abort()
  }

  throwIfRefused(): void {
    const refusal = this.#refusal
    if (refusal === undefined) return
    if (refusal.code !== 'INSUFFICIENT_PRIVILEGE') throw refusal
    throw new AppError('FUNCTION_NOT_EXECUTABLE', `The database refuses a function: ${refusal.message}.`, {
      remedy: 'Run symphony deploy, which grants every right that a process needs, and start this process again.',
    })
  }
}
