import type { Repository } from './repository.js'

/** A place where a rule is broken. `message` says what is wrong there and where it belongs. */
export interface Finding {
  readonly file: string
  readonly line: number
  readonly message: string
}

/** One rule about the shape of the code, decided from its text alone. */
export interface Guardrail {
  readonly name: string
  readonly check: (repository: Repository) => Finding[]
}
