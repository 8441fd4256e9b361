/** Texts beyond this many stay unnamed: each name costs memory in every session, and ours are a fixed few dozen. */
const NAMES_MAX = 256

/**
 * Names under which repeated statements stay prepared in every session of a pool, so that the server parses each once.
 * Never used behind a transaction pooler, where the next statement may meet another session.
 */
export class StatementNames {
  #generation = 1
  readonly #names = new Map<string, string>()

  nameFor(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= NAMES_MAX) return known
    const name = `s${this.#generation}_${this.#names.size + 1}`
    this.#names.set(text, name)
    return name
  }

  /**
   * After a function changed its result type, or somebody discarded the statements of a session, the prepared ones are
   * of no use. New names make every session prepare anew; the old ones die with their sessions.
   */
  renew(): void {
    this.#generation += 1
    this.#names.clear()
  }
}
