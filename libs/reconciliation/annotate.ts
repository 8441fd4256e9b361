import { InvalidArgumentError, SymphonyError, type JsonObject } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { ENCRYPTED_PREFIX, mergeFieldRules, type DecryptPayload } from '../rails/index.js'
import {
  annotateReconciliationPayments,
  reconciliationWindow,
  unreadableReconciliationPayments,
  type FinishedUpload,
  type PaymentAnnotation,
} from './db.js'
import type { ReconcileTools } from './options.js'
import { readPaymentsById, readPaymentsOf, type DispatchedPayment, type LedgerPayment } from './reads/findings.js'
import { CURRENCY, normalizeAccount } from './statements/values.js'

/** Adds to the payments of an upload the facts that SQL cannot read: decrypted amounts and paying accounts. */

const PAGE = 500

/** Decrypts the amounts of payments that the statement names and SQL cannot read. */
export async function annotateAmounts(
  role: Queryable,
  { uploadId, railType }: FinishedUpload,
  tools: ReconcileTools,
  signal: AbortSignal,
): Promise<void> {
  const decrypt = decrypterOf(role, tools)
  let after: string | null = null
  for (;;) {
    signal.throwIfAborted()
    const outboxIds: string[] = await unreadableReconciliationPayments(role, uploadId, railType, after, PAGE)
    if (outboxIds.length === 0) return
    const payments = await readPaymentsById(role, outboxIds)
    const annotations = await Promise.all(payments.map((payment) => annotationOf(payment, decrypt, railType)))
    await annotateReconciliationPayments(role, uploadId, annotations.flat())
    after = outboxIds.at(-1) ?? null
  }
}

/**
 * Returns the decrypted amount, or null as the amount if its key was destroyed. Throws if this process lacks the master
 * key. Returns no annotation if the amount is unreadable for another reason. SQL then refuses the run, or compares no
 * amount if the payment is not DISPATCHED.
 */
async function annotationOf(
  payment: LedgerPayment,
  decrypt: DecryptPayload,
  railType: string,
): Promise<readonly PaymentAnnotation[]> {
  const { outboxId } = payment
  const opened = await decrypt(payment)
  if (!opened.ok && opened.reason === 'FIELD_KEY_MISSING') throw fieldsEncrypted(railType, 'amounts')
  if (!opened.ok) {
    const isErased = opened.reason === 'FIELD_KEY_DESTROYED'
    return isErased ? [{ outboxId, amount: null, currency: null, covered: true }] : []
  }
  const { amount, currency } = opened.payload
  const isReadable = typeof amount === 'string' && AMOUNT.test(amount)
  return isReadable && typeof currency === 'string' && CURRENCY.test(currency)
    ? [{ outboxId, amount, currency, covered: true }]
    : []
}

const AMOUNT = /^\d{1,18}(?:\.\d{1,6})?$/

function fieldsEncrypted(railType: string, fields: string): SymphonyError {
  return new SymphonyError(
    'VAULT_KEYS_MISSING',
    `The ${fields} of rail ${railType} are encrypted, and this process lacks their master keys. Nothing was recorded.`,
    {
      remedy: 'Give vault, or the file of --vault-keys, every master key that is in use (symphony vault status).',
    },
  )
}

/**
 * Excludes payments of other accounts from the finding `recorded_not_paid`, if the rail declares the paying account
 * (`accountOf`). Returns the start of the window of these payments; null without `accountOf`. May be repeated.
 */
export async function annotateCoverage(
  role: Queryable,
  staged: FinishedUpload,
  tools: ReconcileTools,
  signal: AbortSignal,
): Promise<Date | null> {
  const { uploadId, railType, accounts } = staged
  const accountOf = tools.rail?.accountOf
  if (accountOf === undefined || accounts.length === 0) return null
  const covered = new Set(accounts.map(normalizeAccount))
  const decrypt = decrypterOf(role, tools)
  const window = await reconciliationWindow(role, staged)
  let after: string | null = null
  for (;;) {
    signal.throwIfAborted()
    const payments: DispatchedPayment[] = await readPaymentsOf(role, railType, window, after, PAGE)
    if (payments.length === 0) return window.from
    const found = await Promise.all(
      payments.map(async (payment) => {
        const opened = await decrypt(payment)
        const account = opened.ok ? accountOf(opened.payload) : plainAccount(accountOf, payment.payload)
        if (typeof account === 'string') return covered.has(normalizeAccount(account)) ? [] : [payment.outboxId]
        if (opened.ok) {
          throw new InvalidArgumentError(`rail "${railType}", accountOf`, 'expected a function that returns an account')
        }
        if (opened.reason === 'FIELD_KEY_MISSING') throw fieldsEncrypted(railType, 'paying accounts')
        // No key decrypts the account any more. The payment stays expected, so that a missing debit is always reported.
        return []
      }),
    )
    const others = found.flat().map((outboxId) => ({ outboxId, amount: null, currency: null, covered: false }))
    if (others.length > 0) await annotateReconciliationPayments(role, uploadId, others)
    after = payments.at(-1)?.attemptId ?? null
  }
}

/** Returns the account of a payload that cannot be decrypted; no string if `accountOf` reads one of its ciphertexts. */
function plainAccount(accountOf: (payload: JsonObject) => unknown, payload: JsonObject): unknown {
  // A revoked proxy in place of each ciphertext throws on use, so that no part of a ciphertext is taken for an account.
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  const readable: JsonObject = JSON.parse(JSON.stringify(payload), (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(ENCRYPTED_PREFIX) ? proxy : value,
  )
  try {
    return accountOf(readable)
  } catch {
    return undefined
  }
}

/** Returns a function that decrypts the fields of the rail, and always amount and currency. */
function decrypterOf(role: Queryable, { rail, vault }: ReconcileTools): DecryptPayload {
  return vault.decrypter(role, { fields: mergeFieldRules(rail?.fields ?? [], MONEY_FIELDS), subject: undefined })
}

const MONEY_FIELDS = Object.freeze({ '/amount': 'encrypted', '/currency': 'encrypted' })
