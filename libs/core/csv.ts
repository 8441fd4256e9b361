/**
 * Formats one CSV record (RFC 4180) without a line break. Null becomes an empty cell; a list or an object becomes JSON.
 * Text that a spreadsheet would run as a formula gets an apostrophe in front.
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
/** Text that needs no quotes, whichever separator the reader uses. */
const PLAIN = /^[\w .:/+-]*$/
