// Simulated client of a bank: pays once per reference, and finds a payment by its reference.
const paid = new Map<string, { readonly id: string }>()

export async function callTheBank(reference: string, invoice: string, signal: AbortSignal) {
  signal.throwIfAborted()
  const payment = { id: `bank-${invoice}` }
  paid.set(reference, payment)
  return payment
}

export async function askTheBank(reference: string, signal: AbortSignal) {
  signal.throwIfAborted()
  return paid.get(reference)
}

export async function findInStatement(outboxId: string) {
  return process.env['STATEMENT'] === outboxId ? { id: 'bank-77' } : undefined
}
