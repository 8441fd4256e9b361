import { statementError, type StatementPosition } from './statementError.js'
import type { StatementEntry, StatementSummary } from './types.js'
import { DAY_MS, detach } from './values.js'

const CURRENCIES_MAX = 300
/** Maximum numbers of statements and accounts, the same as in SQL. */
const STATEMENTS_MAX = 1_000
const ACCOUNTS_MAX = 1_000

/** Number of entries per batch. */
const BATCH_ENTRIES = 1_000

/** Source of the current position, for errors. */
interface Positioned {
  readonly position: StatementPosition
}

/** Collects the entries of a statement in batches, and the facts of its summary. */
export class EntryCollector {
  #batch: StatementEntry[] = []
  #position = 0
  #from = Infinity
  #to = -Infinity
  readonly #currencies = new Set<string>()
  readonly #statementIds = new Set<string>()
  readonly #accounts = new Set<string>()

  /** Returns the number of the next entry. Entries of other accounts count too. */
  nextPosition(): number {
    this.#position += 1
    return this.#position
  }

  add(entry: StatementEntry, at: Positioned): void {
    if (entry.currency !== null && !this.#currencies.has(entry.currency)) {
      if (this.#currencies.size === CURRENCIES_MAX) {
        throw statementError(
          `expected at most ${CURRENCIES_MAX} currencies in one file`,
          at.position,
          'Check that this is the statement; divide the file by account if it is.',
        )
      }
      this.#currencies.add(detach(entry.currency))
    }
    this.#batch.push(entry)
  }

  addStatementId(id: string, at: Positioned): void {
    if (this.#statementIds.has(id)) {
      throw statementError(
        'expected each statement once, got a statement with the id of an earlier one',
        at.position,
        'Remove the repeated statement, or ask the bank for a file in which each statement has its own id.',
      )
    }
    if (this.#statementIds.size === STATEMENTS_MAX) {
      throw statementError(`expected at most ${STATEMENTS_MAX} statements in one file`, at.position, 'Divide the file.')
    }
    this.#statementIds.add(detach(id))
  }

  addAccount(account: string | null, at: Positioned): void {
    if (account === null || this.#accounts.has(account)) return
    if (this.#accounts.size === ACCOUNTS_MAX) {
      throw statementError(
        `expected at most ${ACCOUNTS_MAX} accounts in one file`,
        at.position,
        'Divide the file by account.',
      )
    }
    this.#accounts.add(detach(account))
  }

  /** Extends the period of the summary. Both times in milliseconds; `to` is exclusive. */
  addPeriod(from: number, to: number): void {
    this.#from = Math.min(this.#from, from)
    this.#to = Math.max(this.#to, to)
  }

  /** Extends the period by the day of an entry. */
  addDay(date: string): void {
    const day = Date.parse(date)
    this.addPeriod(day, day + DAY_MS)
  }

  get isFull(): boolean {
    return this.#batch.length >= BATCH_ENTRIES
  }

  take(): readonly StatementEntry[] {
    const batch = this.#batch
    this.#batch = []
    return batch
  }

  summary(): StatementSummary {
    const hasPeriod = this.#from < this.#to
    return {
      statementIds: [...this.#statementIds],
      accounts: [...this.#accounts],
      from: hasPeriod ? new Date(this.#from) : null,
      to: hasPeriod ? new Date(this.#to) : null,
    }
  }
}
