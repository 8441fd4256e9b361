import type { Queryable } from '../../db/index.js'
import { beginSnapshot } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { withTarget } from '../openTarget.js'
import { ProgressBar } from '../ProgressBar.js'
import type { TargetSettings } from '../settings.js'

/** A long ledger takes its time, statement by statement, and holds up nobody. */
const STATEMENT_TIMEOUT_MS = 1_800_000

/**
 * Reads the ledger as it is at one moment. Behind a transaction pooler there is no such moment to be had: each read is then of
 * its own, which is enough to verify what is not being rewritten.
 */
export function readLedger<T>(settings: TargetSettings, body: (auditor: Queryable) => Promise<T>): Promise<T> {
  const timeouts = { statementTimeoutMs: STATEMENT_TIMEOUT_MS, idleInTransactionTimeoutMs: STATEMENT_TIMEOUT_MS }
  return withTarget(
    settings,
    'ledger',
    (database) => {
      const auditor = database.as('symphony_auditor')
      if (settings.pooler === 'transaction') return body(auditor)
      return auditor.transaction(async (tx) => {
        await beginSnapshot(tx)
        return body(tx)
      })
    },
    timeouts,
  )
}

/** Draws a bar for a person who is looking; takes it away at the end, whatever happens. */
export async function withProgress<T>(
  { terminal }: Cli,
  note: string,
  body: (onProgress: (done: number, total: number) => void) => Promise<T>,
): Promise<T> {
  let bar: ProgressBar | undefined
  try {
    return await body((done, total) => {
      bar ??= new ProgressBar(terminal, total)
      bar.show(done, note)
    })
  } finally {
    bar?.clear()
  }
}
