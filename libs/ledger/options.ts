import { boundedInteger } from '../core/index.js'

export interface LedgerSealerOptions {
  /**
   * How often the ledger is sealed. A row is in a block at most twice this time after the last older writing transaction ended.
   * Shorter: a smaller open window, whose rows can be changed without a trace. Longer: fewer and larger blocks. @default 1000
   */
  readonly intervalMs?: number
  /** Rows per block at the most. A run repeats until a block has fewer. @default 10000 */
  readonly rowsMax?: number
}

export function resolveLedgerSealerOptions(given: LedgerSealerOptions): Required<LedgerSealerOptions> {
  return {
    intervalMs: boundedInteger('intervalMs', given.intervalMs ?? 1_000, { min: 100, max: 3_600_000 }),
    rowsMax: boundedInteger('rowsMax', given.rowsMax ?? 10_000, { min: 1, max: 100_000 }),
  }
}

export interface LedgerVerifierOptions {
  /** Rows that all workers of a database together verify per second. More finds a change earlier and takes more CPU. @default 2000 */
  readonly rowsPerSecond?: number
  /** The least time from the beginning of one pass over all blocks to the next. @default 3600 */
  readonly passSeconds?: number
}

export function resolveLedgerVerifierOptions(given: LedgerVerifierOptions): Required<LedgerVerifierOptions> {
  return {
    rowsPerSecond: boundedInteger('rowsPerSecond', given.rowsPerSecond ?? 2_000, { min: 1, max: 1_000_000 }),
    passSeconds: boundedInteger('passSeconds', given.passSeconds ?? 3_600, { min: 0, max: 2_592_000 }),
  }
}
