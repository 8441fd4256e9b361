import { rateLimitKey, type Identity } from './access/Identity.js'
import { ProblemError } from './Problem.js'

/** Long work that each caller may run once at a time in this process, such as an upload or an export. */
export class OneAtATime {
  readonly #running = new Set<string>()
  readonly #work: string
  readonly #max: number

  /**
   * @param work noun of the work, for the error
   * @param max maximum number of all callers together
   */
  constructor(work: 'upload' | 'export', max = Infinity) {
    this.#work = work
    this.#max = max
  }

  /** Returns a function that ends the work. Throws RATE_LIMITED while the caller has begun other work of this kind. */
  begin(identity: Identity): () => void {
    const name = rateLimitKey(identity)
    if (this.#running.has(name)) throw this.#refusal('of this key is not finished. Send one at a time.')
    if (this.#running.size >= this.#max) throw this.#refusal('needs to wait: others have begun the maximum number.')
    this.#running.add(name)
    return () => this.#running.delete(name)
  }

  #refusal(sentence: string): ProblemError {
    return new ProblemError('RATE_LIMITED', `An ${this.#work} ${sentence}`, { retryAfterSeconds: RETRY_SECONDS })
  }
}

const RETRY_SECONDS = 5
