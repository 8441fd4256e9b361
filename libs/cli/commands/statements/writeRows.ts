import type { PlannedEntry, PlannedStatement } from './generateStatement.js'

/** Columns of the CSV: name of the value in `symphony reconcile --columns`, and header. */
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

/** Quotes texts with a separator, a quote or a line break, as RFC 4180 says. */
function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}
