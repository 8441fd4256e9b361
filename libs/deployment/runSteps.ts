import { DatabaseError, type Transaction } from '../db/index.js'
import type { Step } from './db.js'
import { DeploymentError } from './errors.js'

/** Runs the steps in order. A failure names the step. */
export async function runSteps(tx: Transaction, steps: readonly Step[]): Promise<void> {
  for (const step of steps) {
    try {
      await tx.query(step.sql)
    } catch (error) {
      throw isInTheWay(error) ? error : stepFailed(step, error)
    }
  }
}

/**
 * Whether the failure comes from others who were at work at the same time: a lock, a deadlock, a lost connection; or
 * two deployments of one cluster that created or granted the same role at once, which PostgreSQL reports as a broken
 * unique index of its catalog, or as the internal error "tuple concurrently updated".
 */
export function isInTheWay(error: unknown): boolean {
  if (!(error instanceof DatabaseError) || NO_CONNECTION.has(error.code)) return false
  if (error.disposition === 'retry' || error.code === 'INTERNAL_ERROR') return true
  return error.code === 'UNIQUE_VIOLATION' && error.table?.startsWith('pg_') === true
}

/** Reported at once: a server without a connection for us has nobody in the way. */
const NO_CONNECTION: ReadonlySet<string> = new Set(['CANNOT_CONNECT_NOW', 'CONNECT_FAILED', 'TOO_MANY_CONNECTIONS'])

function stepFailed({ title }: Step, error: unknown): DeploymentError {
  if (error instanceof DatabaseError && error.code === 'FEATURE_NOT_SUPPORTED' && error.hint !== undefined) {
    return new DeploymentError('DEPLOYMENT_SERVER_UNFIT', error.message, { cause: error, remedy: error.hint })
  }
  return new DeploymentError('DEPLOYMENT_FILE_FAILED', `${title} could not be applied. Nothing was changed.`, {
    cause: error,
  })
}
