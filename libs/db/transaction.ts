import { DatabaseError, StaleStatementError, TransactionAbortedError, TransactionClosedError } from './errors.js'
import type { Answer, Loan, Statement } from './Loan.js'
import type { Queryable, Rows } from './Queryable.js'
import type { StatementNames } from './statementNames.js'
import { toDatabaseError } from './toDatabaseError.js'
import { encodeValues } from './values.js'

/** Given to the callback of a transaction, and dead when it ends. */
export type Transaction = Queryable & { readonly schema: string }

export type TransactionCallback<T> = (tx: Transaction) => Promise<T>

export interface TransactionSetup {
  readonly schema: string
  /** Opens the transaction on the connection. */
  readonly begin: (loan: Loan) => Promise<unknown>
  /** The names of prepared statements; undefined behind a pooler. */
  readonly names: StatementNames | undefined
}

/** Runs the callback between BEGIN and COMMIT on one connection, and gives the connection back. */
export async function runTransaction<T>(
  loan: Loan,
  setup: TransactionSetup,
  callback: TransactionCallback<T>,
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

class TransactionHandle implements Transaction {
  readonly schema: string
  readonly #loan: Loan
  readonly #setup: TransactionSetup
  #closed = false
  firstFailure: DatabaseError | undefined

  constructor(loan: Loan, setup: TransactionSetup) {
    this.schema = setup.schema
    this.#loan = loan
    this.#setup = setup
  }

  async query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    if (this.#closed) throw new TransactionClosedError()
    const { names } = this.#setup
    const statement = prepareStatement(text, values, names)
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

  close(): void {
    this.#closed = true
  }
}

/** Statements with parameters are prepared under a name; a text without any may hold several statements. */
export function prepareStatement(
  text: string,
  values: readonly unknown[] | undefined,
  names: StatementNames | undefined,
): Statement {
  return values === undefined ? { text } : { text, values: encodeValues(values), name: names?.nameFor(text) }
}

/** COMMIT, believed only if the server says COMMIT: the end of a failed transaction is answered by ROLLBACK. */
export function assertCommitted({ command }: Answer<unknown>, swallowed: DatabaseError | undefined): void {
  if (command === 'COMMIT') return
  throw new TransactionAbortedError(
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
  if (!loan.isInTransaction) {
    throw new DatabaseError('TRANSACTION_ENDED_INSIDE', 'the callback ended the transaction by itself', {
      disposition: 'unknown',
      remedy: 'leave COMMIT and ROLLBACK to the transaction: return to commit, throw to roll back',
    })
  }
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

/** If it fails, the connection is dead or still in the transaction, and closing it has the same effect. */
async function rollBack(loan: Loan): Promise<void> {
  await loan.send({ text: 'ROLLBACK' }).catch(() => {})
}
