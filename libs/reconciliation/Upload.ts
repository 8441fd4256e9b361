import { setImmediate } from 'node:timers/promises'
import type { Queryable } from '../db/index.js'
import { discardReconciliationUpload, stageReconciliationEntries, type StagedColumns } from './db.js'
import type { StatementEntry } from './statements/types.js'

/**
 * Sends the entries of one statement to the database in batches. The caller reads the next batch while the server
 * stores one.
 */
export class Upload {
  readonly #role: Queryable
  #id: string | null = null
  #entries = 0
  #columns = emptyColumns()
  #staging: Promise<void> = Promise.resolve()

  constructor(role: Queryable) {
    this.#role = role
  }

  /** Number of booked debits and reversals. */
  get entries(): number {
    return this.#entries
  }

  async add(entries: readonly StatementEntry[]): Promise<void> {
    for (const entry of entries) {
      const kind = kindOf(entry)
      if (kind === undefined) continue
      this.#entries += 1
      const columns = this.#columns
      columns.kinds.push(kind)
      columns.accounts.push(entry.account)
      columns.bankReferences.push(entry.bankReference)
      columns.references.push(entry.reference)
      columns.candidates.push(entry.candidates.length === 0 ? null : entry.candidates.join(','))
      columns.amounts.push(entry.amount)
      columns.currencies.push(entry.currency)
      columns.bookedOn.push(entry.bookedOn)
      columns.valuedOn.push(entry.valuedOn)
      columns.returnCodes.push(entry.returnCode)
      columns.positions.push(entry.position)
      if (columns.positions.length === BATCH) await this.#stage()
    }
  }

  /** Stores the remaining entries. Returns the id of the upload, even for a statement without entries. */
  async end(): Promise<string> {
    await this.#staging
    if (this.#id === null || this.#columns.positions.length > 0) await this.#stage()
    await this.#staging
    return this.#id ?? ''
  }

  /** Deletes the stored entries. If that fails, lease repair deletes them a day later. */
  async discard(): Promise<void> {
    try {
      await this.#staging.catch(() => {})
      if (this.#id !== null) await discardReconciliationUpload(this.#role, this.#id)
    } catch {
      // Ignores the failure, because the caller throws the error that ended the run.
    }
  }

  async #stage(): Promise<void> {
    // Waits for the batch before, because the first call creates the id that later calls pass.
    await this.#staging
    const columns = this.#columns
    this.#columns = emptyColumns()
    this.#staging = this.#send(columns)
    // The next `await` of this promise throws the error. This handler only prevents an unhandled rejection.
    this.#staging.catch(() => {})
    // Lets the pool send the batch, which it does in the next turn of the event loop. Otherwise the caller would read
    // the next entries first, while the server has nothing to do.
    await setImmediate()
  }

  async #send(columns: StagedColumns): Promise<void> {
    this.#id = await stageReconciliationEntries(this.#role, this.#id, columns)
  }
}

/** Number of entries per call. With 5,000, the process needed 70 MiB more. */
const BATCH = 2_000

/**
 * Returns the kind of a booked debit or reversal; undefined for other entries. A credit that is no reversal is incoming
 * money, and a pending entry can still disappear.
 */
function kindOf({ status, direction, reversal }: StatementEntry): StagedColumns['kinds'][number] | undefined {
  if (status !== 'booked') return undefined
  if (direction === 'debit') return reversal ? 'debit_reversal' : 'payout'
  return reversal ? 'reversal' : undefined
}

function emptyColumns(): StagedColumns {
  return {
    kinds: [],
    accounts: [],
    bankReferences: [],
    references: [],
    candidates: [],
    amounts: [],
    currencies: [],
    bookedOn: [],
    valuedOn: [],
    returnCodes: [],
    positions: [],
  }
}
