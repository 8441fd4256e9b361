import { SymphonyError } from '../../core/index.js'

/** Place of a fault in a statement. Lines, columns and bytes count from 1. */
export type StatementPosition = { readonly line: number; readonly column?: number } | { readonly byte: number }

/**
 * Creates the error for an invalid statement. `problem` never quotes values of the statement, because errors are
 * logged.
 */
export function statementError(problem: string, position: StatementPosition, remedy: string): SymphonyError {
  return new SymphonyError('STATEMENT_INVALID', `statement, ${describePosition(position)}: ${problem}`, { remedy })
}

function describePosition(position: StatementPosition): string {
  if ('byte' in position) return `byte ${position.byte}`
  return position.column === undefined ? `line ${position.line}` : `line ${position.line}, column ${position.column}`
}

/** Returns a name from the file in a short, printable form, for an error. */
export function quoteName(name: string): string {
  return `"${name.replaceAll(/[^ !#-~]/g, '?').slice(0, 80)}"`
}
