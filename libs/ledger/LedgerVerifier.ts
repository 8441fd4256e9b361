import type { Queryable } from '../db/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { verifyLedgerBlock, type VerifiedBlock } from './db.js'
import { resolveLedgerVerifierOptions, type LedgerVerifierOptions } from './options.js'

export type VerifierEvent =
  /** Rows of the ledger differ from their block. */
  | { readonly type: 'ledger.broken'; readonly block: string; readonly breaks: readonly string[] }
  /** A run failed. The next run verifies the same block. */
  | { readonly type: 'ledger.fault'; readonly during: string; readonly error: unknown }

/**
 * Compares the blocks of the ledger with their rows in endless passes. The database stores the position and limits the
 * rate of all workers together, so any number may run. A superuser who also replaces database functions can hide a
 * change from this verifier, but not from `verifyLedger`.
 */
export class LedgerVerifier extends IntervalWorker<VerifiedBlock | undefined> {
  readonly #role: Queryable
  readonly #options: Required<LedgerVerifierOptions>
  readonly #onEvent: (event: VerifierEvent) => void

  constructor(
    role: Queryable,
    options: LedgerVerifierOptions = {},
    onEvent: (event: VerifierEvent) => void = () => {},
  ) {
    const guarded = guardListener(onEvent)
    super({
      intervalMs: POLL_MS,
      hasMore: (verified) => verified !== undefined,
      onError: (error) => guarded({ type: 'ledger.fault', during: 'verifying the ledger', error }),
    })
    this.#role = role
    this.#options = resolveLedgerVerifierOptions(options)
    this.#onEvent = guarded
  }

  /** Verifies one block. Returns undefined if no block is due or another worker is verifying. */
  async runOnce(): Promise<VerifiedBlock | undefined> {
    const { rowsPerSecond, passSeconds } = this.#options
    const verified = await verifyLedgerBlock(this.#role, rowsPerSecond, passSeconds)
    if (verified !== undefined && verified.breaks.length > 0) {
      this.#onEvent({ type: 'ledger.broken', block: String(verified.blockNo), breaks: verified.breaks })
    }
    return verified
  }
}

const POLL_MS = 1_000
