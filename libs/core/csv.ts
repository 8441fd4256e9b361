/**
 * Returns a record of a CSV file by RFC 4180, without the line break. Null is an empty cell, and a list or an object is JSON. A text that a
 * spreadsheet would run as a formula gets an apostrophe in front.
 */
export function csvRecord(values: readonly unknown[]): string {
  return values.map(csvCell).join(',')
}

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return ''
  const text = typeof value === 'string' || typeof value === 'bigint' ? String(value) : JSON.stringify(value)
  const shown = typeof value === 'string' && FORMULA.test(text) ? `'${text}` : text
  return PLAIN.test(shown) ? shown : `"${shown.replaceAll('"', '""')}"`
}

/** Beginnings of formulas, with the full-width forms that some spreadsheets accept too. */
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/
/** Text that no program splits, whatever its separator is. */
const PLAIN = /^[\w .:/+-]*$/
