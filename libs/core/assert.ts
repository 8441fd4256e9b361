import { AppError } from './AppError.js'

/** Returns the row of a database function that always returns one row. */
export function onlyRow<Row>(rows: readonly Row[]): Row {
  const [row] = rows
  if (row === undefined || rows.length > 1) {
    throw new AppError('UNEXPECTED_ROWS', `a function that returns one row returned ${rows.length}`, {
      remedy: 'The schema and this release do not fit together: run `symphony doctor`.',
    })
  }
  return row
}
