import { AsyncLocalStorage } from 'node:async_hooks'
import type { QueryAnswer, CheckedOutConnection } from './ConnectionPool.js'
import { prepareStatement, type StatementNames } from './statement.js'
import {
  DatabaseError,
  NestedTransactionError,
  TransactionAbortedError,
  TransactionClosedError,
  TransactionBusyError,
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

interface TransactionSetup {
  readonly schema: string
  /** Role of the transaction; undefined for the login itself. */
  readonly role: string | undefined
  /** Name of the login, for the message of a refused role. */
  readonly login: string
  readonly begin: (connection: CheckedOutConnection) => Promise<unknown>
  /** Names of prepared statements; undefined behind a pooler. */
  readonly names: StatementNames | undefined
}

/** Runs the callback between BEGIN and COMMIT on one connection, and returns the connection to its pool. */
export async function runTransaction<T>(
  connection: CheckedOutConnection,
  setup: TransactionSetup,
  callback: RoleTransactionCallback<T>,
): Promise<T> {
  try {
    await begin(connection, setup)
    const handle = new TransactionHandle(connection, setup)
    let result: T
    try {
      result = await callback(handle)
    } catch (error) {
      handle.close()
      await rollBack(connection)
      throw error
    }
    handle.close()
    await commit(connection, handle)
    return result
  } finally {
    // Returns the connection in the background: the caller already has its answer.
    void connection.return()
  }
}

/** Refuses a transaction inside another one of the same database, because the inner one would commit separately. */
export class TransactionNesting {
  readonly #current = new AsyncLocalStorage<{ open: boolean }>()

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#current.getStore()?.open === true) throw new NestedTransactionError()
    const state = { open: true }
    try {
      return await this.#current.run(state, work)
    } finally {
      // Work that the callback did not await still shares this state, and may begin a transaction from now on.
      state.open = false
    }
  }
}

class TransactionHandle implements RoleTransaction {
  readonly schema: string
  readonly #connection: CheckedOutConnection
  readonly #setup: TransactionSetup
  #closed = false
  #isInOtherRole = false
  firstFailure: DatabaseError | undefined

  constructor(connection: CheckedOutConnection, setup: TransactionSetup) {
    this.schema = setup.schema
    this.#connection = connection
    this.#setup = setup
  }

  async query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> {
    this.#assertUsable()
    const { names } = this.#setup
    const statement = prepareStatement({ text, values }, this.schema, names)
    try {
      const { rows } = await this.#connection.send<R>(statement)
      return { rows }
    } catch (error) {
      const typed = toDatabaseError(error, { phase: 'uncommitted' })
      if (typed.code === 'STALE_STATEMENT') names?.renew()
      this.firstFailure ??= typed
      throw typed
    }
  }

  async asRole<T>(role: string, callback: TransactionCallback<T>): Promise<T> {
    this.#assertUsable()
    const name = requiredRole(role)
    this.#isInOtherRole = true
    try {
      await this.#switchRole(`SAVEPOINT ${ROLE_SAVEPOINT}; SET LOCAL ROLE ${quoteIdentifier(name)}`, name)
      const inner = new TransactionHandle(this.#connection, { ...this.#setup, role: name })
      let result: T
      try {
        result = await callback(inner)
      } catch (error) {
        inner.close()
        await this.#restoreRole(`ROLLBACK TO SAVEPOINT ${ROLE_SAVEPOINT}; RELEASE SAVEPOINT ${ROLE_SAVEPOINT}`).catch(
          () => {},
        )
        throw error
      }
      inner.close()
      assertStillOpen(this.#connection)
      await this.#restoreRole(`RELEASE SAVEPOINT ${ROLE_SAVEPOINT}`).catch((error: unknown) => {
        throw inner.firstFailure === undefined ? error : swallowedIn(inner.firstFailure)
      })
      return result
    } finally {
      this.#isInOtherRole = false
    }
  }

  close(): void {
    this.#closed = true
  }

  /**
   * Restores the role of this transaction. The statement `leaving` releases or rolls back to the savepoint. It fails if
   * the callback has ended the transaction, because the savepoint then does not exist.
   */
  async #restoreRole(leaving: string): Promise<void> {
    const { role } = this.#setup
    await this.#switchRole(`${leaving}; SET LOCAL ROLE ${role === undefined ? 'NONE' : quoteIdentifier(role)}`, role)
  }

  async #switchRole(text: string, role: string | undefined): Promise<void> {
    try {
      await this.#connection.send({ text })
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
    if (this.#isInOtherRole) throw new TransactionBusyError()
  }
}

const ROLE_SAVEPOINT = 'symphony_as_role'

/** Throws unless the server answered COMMIT. For a failed transaction the server answers ROLLBACK. */
export function assertCommitted({ command }: QueryAnswer<unknown>, swallowed: DatabaseError | undefined): void {
  if (command !== 'COMMIT') throw swallowedIn(swallowed)
}

function swallowedIn(swallowed: DatabaseError | undefined): TransactionAbortedError {
  return new TransactionAbortedError(
    'nothing was committed: a statement had failed, and its error was ignored',
    swallowed,
  )
}

async function begin(connection: CheckedOutConnection, setup: TransactionSetup): Promise<void> {
  try {
    await setup.begin(connection)
  } catch (error) {
    throw toDatabaseError(error, { phase: 'uncommitted' })
  }
}

async function commit(connection: CheckedOutConnection, handle: TransactionHandle): Promise<void> {
  assertStillOpen(connection)
  const committed = connection.send({ text: 'COMMIT' })
  const survived = connection.return()
  let answer: QueryAnswer<unknown>
  try {
    answer = await committed
  } catch (error) {
    throw toDatabaseError(error, { phase: 'committing', sessionSurvived: await survived })
  }
  assertCommitted(answer, handle.firstFailure)
}

function assertStillOpen(connection: CheckedOutConnection): void {
  if (!connection.isInTransaction) throw endedInside()
}

function endedInside(): DatabaseError {
  return new DatabaseError('TRANSACTION_ENDED_INSIDE', 'the callback ended the transaction', {
    disposition: 'unknown',
    remedy: 'leave COMMIT and ROLLBACK to the transaction: return to commit, throw to roll back',
  })
}

/** Rolls back. A failed ROLLBACK needs no handling: the connection is then closed, which has the same effect. */
async function rollBack(connection: CheckedOutConnection): Promise<void> {
  await connection.send({ text: 'ROLLBACK' }).catch(() => {})
}
