import { rateLimitKey, type Identity } from './access/Identity.js'
import { ProblemError } from './Problem.js'

/** Limits long work, such as uploads, to one at a time per caller in this process. */
export class OneAtATime {
  readonly #running = new Set<string>()
  readonly #work: string
  readonly #max: number

  /**
   * @param work noun of the work, for the error
   * @param max maximum over all callers
   */
  constructor(work: 'upload' | 'export', max = Infinity) {
    this.#work = work
    this.#max = max
  }

  /**
   * Throws RATE_LIMITED if other work of this caller is running, or if the maximum over all callers is reached. Returns
   * the function that ends the work.
   */
  begin(identity: Identity): () => void {
    const name = rateLimitKey(identity)
    if (this.#running.has(name)) throw this.#refusal('of this key is not finished. Send one at a time.')
    if (this.#running.size >= this.#max) throw this.#refusal('must wait: the server already runs the maximum number.')
    this.#running.add(name)
    return () => this.#running.delete(name)
  }

  #refusal(sentence: string): ProblemError {
    return new ProblemError('RATE_LIMITED', `An ${this.#work} ${sentence}`, { retryAfterSeconds: RETRY_SECONDS })
  }
}

const RETRY_SECONDS = 5
