import type { Queryable } from '../db/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { projectLedgerBlock } from './db.js'
import { resolveLedgerSealerOptions, type LedgerSealerOptions } from './options.js'

export interface ProjectionCounts {
  readonly blocks: number
  readonly rows: number
  /** Whether more blocks may be waiting. */
  readonly more: boolean
}

/** A run failed. The next run projects the same block. */
export interface ProjectorEvent {
  readonly type: 'ledger.fault'
  readonly during: string
  readonly error: unknown
}

/**
 * Adds sealed blocks to the search table and to the counts per minute, five minutes, hour and day. The database stores
 * the position in the same transaction and admits one caller at a time. Any number of projectors may run, and each row
 * counts once.
 */
export class LedgerProjector extends IntervalWorker<ProjectionCounts> {
  readonly #role: Queryable

  constructor(
    role: Queryable,
    options: Pick<LedgerSealerOptions, 'intervalMs'> = {},
    onEvent: (event: ProjectorEvent) => void = () => {},
  ) {
    const guarded = guardListener(onEvent)
    super({
      intervalMs: resolveLedgerSealerOptions(options).intervalMs,
      hasMore: ({ more }) => more,
      onError: (error) => guarded({ type: 'ledger.fault', during: 'projecting the ledger', error }),
    })
    this.#role = role
  }

  async runOnce(): Promise<ProjectionCounts> {
    let blocks = 0
    let rows = 0
    while (blocks < BLOCKS_PER_RUN) {
      const projected = await projectLedgerBlock(this.#role)
      if (projected === undefined) break
      blocks += 1
      rows += projected.rowCount
    }
    return { blocks, rows, more: blocks === BLOCKS_PER_RUN }
  }
}

/** Maximum number of blocks per run, so that `stop()` does not wait for the whole backlog. */
const BLOCKS_PER_RUN = 10
