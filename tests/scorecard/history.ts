import { DatabaseError, isLeaseLostError } from '../../libs/db/index.js'

/** A call and its result, with start and end by a clock that all clients share. */
export interface Entry {
  readonly client: number
  readonly invoked: number
  readonly returned: number
  /**
   * `refused`: the caller did not hold the lease. `unknown`: the connection was lost, and the call may have taken
   * effect. `not done`: the error has disposition retry, so nothing happened.
   */
  readonly outcome: 'ok' | 'refused' | 'unknown' | 'not done'
  readonly call: Call
}

export type Call =
  | { readonly kind: 'enqueue'; readonly key: string; readonly participant: string; answer?: EnqueueAnswer }
  | { readonly kind: 'claim'; readonly worker: string; answer?: readonly Grant[] }
  | (Grant & { readonly kind: 'complete'; readonly state: string; answer?: CompleteAnswer })
  | (Grant & { readonly kind: 'renew' })
  | (Grant & { readonly kind: 'release' })
  | { readonly kind: 'expire'; readonly outboxId: string }
  | { readonly kind: 'repair' }
  | { readonly kind: 'acquire'; readonly resource: string; answer?: bigint }

export interface Grant {
  readonly outboxId: string
  readonly leaseToken: string
}

export interface EnqueueAnswer {
  readonly outboxId: string
  readonly sequenceId: bigint
  readonly created: boolean
}

export interface CompleteAnswer {
  readonly attemptNo: number
  readonly state: string
}

/** Calls of many clients, in the order of their answers. */
export class History {
  readonly entries: Entry[] = []
  /** Errors that no client should get. */
  readonly strange: string[] = []
  #tick = 0

  /** Runs and records a call. `run` stores its answer in the call. */
  async record<C extends Call>(client: number, call: C, run: (call: C) => Promise<void>): Promise<Entry['outcome']> {
    const invoked = (this.#tick += 1)
    let outcome: Entry['outcome'] = 'ok'
    try {
      await run(call)
    } catch (error) {
      outcome = this.#outcomeOf(error, call)
    }
    this.entries.push({ client, invoked, returned: (this.#tick += 1), outcome, call })
    return outcome
  }

  #outcomeOf(error: unknown, { kind }: Call): Entry['outcome'] {
    if (isLeaseLostError(error)) return 'refused'
    if (error instanceof DatabaseError && error.disposition !== 'fatal') {
      return error.disposition === 'unknown' ? 'unknown' : 'not done'
    }
    this.strange.push(`${kind}: ${String(error)}`)
    return 'unknown'
  }
}
