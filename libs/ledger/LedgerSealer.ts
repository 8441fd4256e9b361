import type { Queryable } from '../db/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { sealLedgerBlock } from './db.js'
import { resolveLedgerSealerOptions, type LedgerSealerOptions } from './options.js'

export interface SealCounts {
  readonly blocks: number
  readonly rows: number
  /** There is more to seal at once. */
  readonly more: boolean
}

export type SealerEvent =
  /** Rows that were written are in blocks now. */
  | { readonly type: 'ledger.sealed'; readonly blocks: number; readonly rows: number }
  /** A run failed; the next one will find the same rows. */
  | { readonly type: 'ledger.fault'; readonly during: string; readonly error: unknown }

/**
 * Seals the ledger, block by block, behind its writers. The database decides which rows a block covers, and that no two blocks cover
 * the same row. Any number of sealers may run: one seals, the others find nothing to do. It does not promise that each row is
 * sealed: rows wait until no older transaction runs.
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

/** Bounds a run, so that stopping waits for one block and not for a backlog. */
const BLOCKS_PER_RUN = 10
