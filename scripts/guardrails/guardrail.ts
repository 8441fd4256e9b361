import type { Repository } from './repository.js'

/** Violation of a rule. `message` says what is wrong and where the code belongs. */
export interface Finding {
  readonly file: string
  readonly line: number
  readonly message: string
}

/** Rule about the code, checked from its text alone. */
export interface Guardrail {
  readonly name: string
  readonly check: (repository: Repository) => Finding[]
}
