import { verdict, type InvariantVerdict } from './verdicts.js'

/** What the rail did under our reference, from its own book. */
export interface RailEffect {
  readonly reference: string
  /** The rail's own name for the payment. */
  readonly railReference: string
}

/** An ended item, as the other book must confirm it. */
export interface Ending {
  readonly outboxId: string
  readonly state: 'DISPATCHED' | 'FAILED'
  readonly railReference: string | null
  readonly decidedByPeople: boolean
}

/** The rail's book against ours, one ending after the other. */
export class RailBookComparison {
  readonly #paid = new Map<string, string[]>()
  readonly unpaid: string[] = []
  readonly failedButPaid: string[] = []
  effects = 0

  constructor(effects: Iterable<RailEffect>) {
    for (const { reference, railReference } of effects) {
      this.effects += 1
      const references = this.#paid.get(reference)
      if (references === undefined) this.#paid.set(reference, [railReference])
      else references.push(railReference)
    }
  }

  get paidTwice(): string[] {
    return [...this.#paid].filter(([, references]) => references.length > 1).map(([reference]) => reference)
  }

  see({ outboxId, state, railReference, decidedByPeople }: Ending): void {
    const references = this.#paid.get(outboxId) ?? []
    if (state === 'DISPATCHED' && !references.includes(railReference ?? '')) this.unpaid.push(outboxId)
    // Two people may decide that a payment failed; a counter or a code may not, while the rail has paid it.
    if (state === 'FAILED' && references.length > 0 && !decidedByPeople) this.failedButPaid.push(outboxId)
  }
}

export function bookVerdicts({ unpaid, paidTwice, failedButPaid }: RailBookComparison): InvariantVerdict[] {
  return [verdict('I3', unpaid), verdict('I4', paidTwice), verdict('I5', failedButPaid)]
}
