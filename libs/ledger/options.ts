import { boundedInteger } from '../core/index.js'

export interface LedgerSealerOptions {
  /**
   * How often the ledger is sealed. Shorter: a smaller open window, whose rows could vanish without a block missing them. Longer:
   * fewer and larger blocks. @default 10000
   */
  readonly intervalMs?: number
  /** Rows per block at the most. A run repeats until a block has fewer. @default 10000 */
  readonly rowsMax?: number
}

export function resolveLedgerSealerOptions(given: LedgerSealerOptions): Required<LedgerSealerOptions> {
  return {
    intervalMs: boundedInteger('intervalMs', given.intervalMs ?? 10_000, { min: 100, max: 3_600_000 }),
    rowsMax: boundedInteger('rowsMax', given.rowsMax ?? 10_000, { min: 1, max: 100_000 }),
  }
}
