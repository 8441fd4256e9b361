import { Gauge, type Registry } from 'prom-client'

/** What a verification of the ledger found. */
export interface VerifiedLedger {
  readonly breakCount: number
}

/** What the latest verification in this process found. Before the first there is no figure: nobody has looked. */
export class LedgerMetrics {
  readonly #breaks: Gauge
  readonly #verifiedAt: Gauge

  constructor(registry: Registry) {
    // Without a label a gauge begins with 0, which would say that all is well; with an empty set it begins with nothing.
    const gauge = (name: string, help: string) => {
      const made = new Gauge({ name, help, registers: [registry] })
      made.remove()
      return made
    }
    this.#breaks = gauge('ledger_chain_breaks', 'Places where a hash of the ledger is not what it should be.')
    this.#verifiedAt = gauge('ledger_verified_timestamp_seconds', 'When the ledger was verified last.')
  }

  onVerified({ breakCount }: VerifiedLedger, at: Date): void {
    this.#breaks.set(breakCount)
    this.#verifiedAt.set(at.getTime() / 1_000)
  }
}
