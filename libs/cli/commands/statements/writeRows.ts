import type { PlannedEntry, PlannedStatement } from './generateStatement.js'

/** Columns of the CSV: the name in `symphony reconcile --columns` and the header. */
export const CSV_COLUMNS = [
  ['account', 'Account'],
  ['date', 'Booked'],
  ['bankReference', 'Bank reference'],
  ['reference', 'Reference'],
  ['amount', 'Amount'],
  ['currency', 'Currency'],
  ['direction', 'Direction'],
  ['status', 'Status'],
  ['reversal', 'Reversal'],
] as const

/** Writes CSV with a decimal comma and quoted texts. */
export function* writeCsv(statements: readonly PlannedStatement[]): Generator<string> {
  yield `${CSV_COLUMNS.map(([, header]) => header).join(',')}\r\n`
  for (const { entries } of statements) {
    for (const entry of entries) {
      const row = rowOf(entry)
      const fields = { ...row, amount: row.amount.replace('.', ',') }
      yield `${CSV_COLUMNS.map(([name]) => quoted(String(fields[name]))).join(',')}\r\n`
    }
  }
}

export function* writeNdjson(statements: readonly PlannedStatement[]): Generator<string> {
  for (const { entries } of statements) {
    for (const entry of entries) {
      const { date, ...row } = rowOf(entry)
      const { valuedOn, returnCode } = entry
      yield `${JSON.stringify({ ...row, bookedOn: date, valuedOn, returnCode })}\n`
    }
  }
}

function rowOf(entry: PlannedEntry) {
  const { account, bankReference, reference, party, amount, currency, direction, status, reversal, bookedOn } = entry
  return {
    account,
    date: bookedOn,
    bankReference,
    reference: reference?.field === 'text' ? `${party}: payout ${reference.text}` : (reference?.text ?? ''),
    amount,
    currency,
    direction,
    status,
    reversal,
  }
}

/** Quotes a text with a separator, quote or line break (RFC 4180). */
function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
