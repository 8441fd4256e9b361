import { AsyncLocalStorage } from 'node:async_hooks'
import type { Answer, Loan } from './ConnectionPool.js'
import { prepareStatement, type StatementNames } from './statement.js'
import {
  DatabaseError,
  NestedTransactionError,
  StaleStatementError,
  TransactionAbortedError,
  TransactionClosedError,
  TransactionLentError,
} from './errors.js'
import {
  quoteIdentifier,
  type RoleTransaction,
  type RoleTransactionCallback,
  type Rows,
  type TransactionCallback,
} from './Queryable.js'
import { requiredRole, roleErrorIn } from './roles.js'
import { isServerError } from './serverError.js'
import { SQLSTATE } from './sqlstates.js'
import { toDatabaseError } from './toDatabaseError.js'

export interface TransactionSetup {
  readonly schema: string
  /** The role it runs in, and comes back to; undefined for the login itself. */
  readonly role: string | undefined
  /** Who logs in, for the message when a role is refused. */
  readonly login: string
  /** Opens the transaction on the connection. */
  readonly begin: (loan: Loan) => Promise<unknown>
  /** The names of prepared statements; undefined behind a pooler. */
  readonly names: StatementNames | undefined
}

/** Runs the callback between BEGIN and COMMIT on one connection, and gives the connection back. */
export async function runTransaction<T>(
  loan: Loan,
  setup: TransactionSetup,
  callback: RoleTransactionCallback<T>,
): Promise<T> {
  try {
    await begin(loan, setup)
    const handle = new TransactionHandle(loan, setup)
    let result: T
    try {
      result = await callback(handle)
    } catch (error) {
      handle.close()
      await rollBack(loan)
      throw error
    }
    handle.close()
    await commit(loan, handle)
    return result
  } finally {
    // Not waited for: the connection finds its own way back, and the caller has its answer.
    void loan.giveBack()
  }
}

/** Refuses a transaction inside another one of the same database: it would commit apart from the outer one. */
export class TransactionNesting {
  readonly #current = new AsyncLocalStorage<{ open: boolean }>()

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#current.getStore()?.open === true) throw new NestedTransactionError()
    const state = { open: true }
    try {
      return await this.#current.run(state, work)
    } finally {
      // Work that the callback started and did not await still sees this state, and may now begin a transaction.
      state.open = false
    }
  }
}

class TransactionHandle implements RoleTransaction {
  readonly schema: string
  readonly #loan: Loan
  readonly #setup: TransactionSetup
  #closed = false
  #lent = false
  firstFailure: DatabaseError | undefined

  constructor(loan: Loan, setup: TransactionSetup) {
    this.schema = setup.schema
    this.#loan = loan
    this.#setup = setup
  }

  async query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    this.#assertUsable()
    const { names } = this.#setup
    const statement = prepareStatement({ text, values }, this.schema, names)
    try {
      const { rows } = await this.#loan.send<R>(statement)
      return { rows }
    } catch (error) {
      const typed = toDatabaseError(error, { phase: 'uncommitted' })
      if (typed instanceof StaleStatementError) names?.renew()
      this.firstFailure ??= typed
      throw typed
    }
  }

  async asRole<T>(role: string, callback: TransactionCallback<T>): Promise<T> {
    this.#assertUsable()
    const name = requiredRole(role)
    this.#lent = true
    try {
      await this.#switchRole(`SAVEPOINT ${LENT}; SET LOCAL ROLE ${quoteIdentifier(name)}`, name)
      const borrowed = new TransactionHandle(this.#loan, { ...this.#setup, role: name })
      let result: T
      try {
        result = await callback(borrowed)
      } catch (error) {
        borrowed.close()
        await this.#comeBack(`ROLLBACK TO SAVEPOINT ${LENT}; RELEASE SAVEPOINT ${LENT}`).catch(() => {})
        throw error
      }
      borrowed.close()
      assertStillOpen(this.#loan)
      await this.#comeBack(`RELEASE SAVEPOINT ${LENT}`).catch((error: unknown) => {
        throw borrowed.firstFailure === undefined ? error : swallowedIn(borrowed.firstFailure)
      })
      return result
    } finally {
      this.#lent = false
    }
  }

  close(): void {
    this.#closed = true
  }

  /**
   * The savepoint is the proof that this still is the transaction that was lent: a callback which ended it, even if it began
   * another, took the savepoint along, and the role is not given back to what it left behind.
   */
  async #comeBack(leaving: string): Promise<void> {
    const { role } = this.#setup
    await this.#switchRole(`${leaving}; SET LOCAL ROLE ${role === undefined ? 'NONE' : quoteIdentifier(role)}`, role)
  }

  async #switchRole(text: string, role: string | undefined): Promise<void> {
    try {
      await this.#loan.send({ text })
    } catch (error) {
      if (isServerError(error) && error.code === SQLSTATE.unknownSavepoint) throw endedInside()
      const refused = role === undefined ? undefined : roleErrorIn(error, role, this.#setup.login)
      const typed = refused ?? toDatabaseError(error, { phase: 'uncommitted' })
      this.firstFailure ??= typed
      throw typed
    }
  }

  #assertUsable(): void {
    if (this.#closed) throw new TransactionClosedError()
    if (this.#lent) throw new TransactionLentError()
  }
}

const LENT = 'symphony_lent'

/** COMMIT, believed only if the server says COMMIT: the end of a failed transaction is answered by ROLLBACK. */
export function assertCommitted({ command }: Answer<unknown>, swallowed: DatabaseError | undefined): void {
  if (command !== 'COMMIT') throw swallowedIn(swallowed)
}

function swallowedIn(swallowed: DatabaseError | undefined): TransactionAbortedError {
  return new TransactionAbortedError(
    'nothing was committed: a statement had failed, and its error was swallowed',
    swallowed,
  )
}

async function begin(loan: Loan, setup: TransactionSetup): Promise<void> {
  try {
    await setup.begin(loan)
  } catch (error) {
    throw toDatabaseError(error, { phase: 'uncommitted' })
  }
}

async function commit(loan: Loan, handle: TransactionHandle): Promise<void> {
  assertStillOpen(loan)
  const committed = loan.send({ text: 'COMMIT' })
  const survived = loan.giveBack()
  let answer: Answer<unknown>
  try {
    answer = await committed
  } catch (error) {
    throw toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
  }
  assertCommitted(answer, handle.firstFailure)
}

function assertStillOpen(loan: Loan): void {
  if (!loan.isInTransaction) throw endedInside()
}

function endedInside(): DatabaseError {
  return new DatabaseError('TRANSACTION_ENDED_INSIDE', 'the callback ended the transaction by itself', {
    disposition: 'unknown',
    remedy: 'leave COMMIT and ROLLBACK to the transaction: return to commit, throw to roll back',
  })
}

/** If it fails, the connection is dead or still in the transaction, and closing it has the same effect. */
async function rollBack(loan: Loan): Promise<void> {
  await loan.send({ text: 'ROLLBACK' }).catch(() => {})
}
