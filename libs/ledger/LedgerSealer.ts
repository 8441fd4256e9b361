import type { Queryable } from '../db/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { sealLedgerBlock } from './db.js'
import { resolveLedgerSealerOptions, type LedgerSealerOptions } from './options.js'

export interface SealCounts {
  readonly blocks: number
  readonly rows: number
  /** Whether more rows can be sealed immediately. */
  readonly more: boolean
}

export type SealerEvent =
  /** Rows were sealed in blocks. */
  | { readonly type: 'ledger.sealed'; readonly blocks: number; readonly rows: number }
  /** A run failed. The next run seals the same rows. */
  | { readonly type: 'ledger.fault'; readonly during: string; readonly error: unknown }

/**
 * Seals new rows of the ledger in blocks. The database chooses the rows and prevents overlapping blocks, so any number
 * of sealers may run. A row stays unsealed while an older transaction is open.
 */
export class LedgerSealer extends IntervalWorker<SealCounts> {
  readonly #role: Queryable
  readonly #options: Required<LedgerSealerOptions>
  readonly #onEvent: (event: SealerEvent) => void

  constructor(role: Queryable, options: LedgerSealerOptions = {}, onEvent: (event: SealerEvent) => void = () => {}) {
    const guarded = guardListener(onEvent)
    const resolved = resolveLedgerSealerOptions(options)
    super({
      intervalMs: resolved.intervalMs,
      hasMore: ({ more }) => more,
      onError: (error) => guarded({ type: 'ledger.fault', during: 'sealing the ledger', error }),
    })
    this.#role = role
    this.#options = resolved
    this.#onEvent = guarded
  }

  async runOnce(): Promise<SealCounts> {
    const { rowsMax, intervalMs } = this.#options
    let blocks = 0
    let rows = 0
    while (blocks < BLOCKS_PER_RUN) {
      const sealed = await sealLedgerBlock(this.#role, rowsMax, Math.floor(intervalMs / 2))
      if (sealed === undefined) break
      blocks += 1
      rows += sealed.rowCount
      if (sealed.rowCount < rowsMax) break
    }
    if (blocks > 0) this.#onEvent({ type: 'ledger.sealed', blocks, rows })
    return { blocks, rows, more: blocks === BLOCKS_PER_RUN }
  }
}

/** Maximum number of blocks per run, so that `stop()` does not wait for the whole backlog. */
const BLOCKS_PER_RUN = 10
