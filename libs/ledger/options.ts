import { boundedInteger } from '../core/index.js'

export interface LedgerSealerOptions {
  /**
   * Interval of sealing. When the last older transaction that writes has ended, a row is sealed within two intervals. A
   * shorter interval leaves fewer unsealed rows, which can be changed without a trace. A longer interval makes fewer
   * and larger blocks.
   * @default 1000
   */
  readonly intervalMs?: number
  /** Maximum number of rows per block. A run seals blocks until one is not full. @default 10000 */
  readonly rowsMax?: number
}

export function resolveLedgerSealerOptions(given: LedgerSealerOptions): Required<LedgerSealerOptions> {
  return {
    intervalMs: boundedInteger('intervalMs', given.intervalMs ?? 1_000, { min: 100, max: 3_600_000 }),
    rowsMax: boundedInteger('rowsMax', given.rowsMax ?? 10_000, { min: 1, max: 100_000 }),
  }
}

export interface LedgerVerifierOptions {
  /**
   * Rows per second that all workers of a database verify together. A higher rate finds a change earlier but needs more
   * CPU.
   * @default 2000
   */
  readonly rowsPerSecond?: number
  /** Minimum time between the starts of two passes over all blocks. @default 3600 */
  readonly passSeconds?: number
}

export function resolveLedgerVerifierOptions(given: LedgerVerifierOptions): Required<LedgerVerifierOptions> {
  return {
    rowsPerSecond: boundedInteger('rowsPerSecond', given.rowsPerSecond ?? 2_000, { min: 1, max: 1_000_000 }),
    passSeconds: boundedInteger('passSeconds', given.passSeconds ?? 3_600, { min: 0, max: 2_592_000 }),
  }
}
