import {
  SymphonyError,
  ArgumentRangeError,
  indexPath,
  InvalidArgumentError,
  InvalidPayloadError,
  isObject,
  keyPath,
  parseMoney,
  type JsonObject,
} from '../core/index.js'
import { refuseCardNumbers } from './fields/cardNumbers.js'
import type { LoadedContract } from './loadRails.js'
import type { StandardIssue, StandardResult, DestinationKind } from './types.js'
import { withDeadline } from './withDeadline.js'

export type PayloadCheck = { readonly ok: true } | PayloadFault | PayloadCheckFailure

/** Fault of a payload that can never be sent. */
export interface PayloadFault {
  readonly ok: false
  readonly code: PayloadFaultCode
  /** Message that names fields, never values, because it is stored in the ledger. */
  readonly message: string
  readonly retryable: false
}

/** Failure of the check itself (a schema that threw or hung). It says nothing about the payload. */
export interface PayloadCheckFailure {
  readonly ok: false
  readonly code: 'PAYLOAD_CHECK_FAILED'
  readonly message: string
  readonly retryable: true
}

export type PayloadFaultCode =
  | 'CARD_NUMBER_REFUSED'
  | 'INVALID_AMOUNT'
  | 'INVALID_CURRENCY'
  | 'INVALID_DESTINATION'
  | 'INVALID_PAYLOAD'

/**
 * Checks a payload before it is sent: amount, currency and destination if the rail moves money, then the rail's own
 * schema. Reports the first fault. A payload that is not `ok` must not reach the rail. Never throws. Returns a promise
 * only for an asynchronous check: a schema, the rail's own check, or a table that is not loaded yet.
 */
export function validatePayload(rail: LoadedContract, payload: JsonObject): PayloadCheck | Promise<PayloadCheck> {
  if (!isObject(payload)) {
    return fault('INVALID_PAYLOAD', 'payload: expected an object')
  }
  try {
    const moneyFault =
      faultOfCardNumbers(rail, payload) ??
      (rail.money ? (faultOfMoney(payload) ?? faultOfDestination(rail, payload['destination'])) : undefined)
    const anyFault = whenSettled(moneyFault, (found) => found ?? faultBySchema(rail, payload))
    const check = whenSettled(anyFault, (found): PayloadCheck => found ?? SOUND)
    return check instanceof Promise ? check.catch(checkFailure) : check
  } catch (error) {
    return checkFailure(error)
  }
}

/** Returns the result of `judge`: a promise only if the value or the result is one. */
export function whenSettled<Value, Result>(
  value: Value | Promise<Value>,
  judge: (value: Value) => Result | Promise<Result>,
): Result | Promise<Result> {
  return value instanceof Promise ? value.then(judge) : judge(value)
}

function checkFailure(error: unknown): PayloadCheckFailure {
  // Uses only the name of the error, because validators quote the value in their messages.
  const reason = error instanceof PayloadCheckError ? error.message : `threw ${nameOf(error)}`
  return { ok: false, code: 'PAYLOAD_CHECK_FAILED', message: `the payload check ${reason}`, retryable: true }
}

const SOUND: PayloadCheck = Object.freeze({ ok: true })

/** Checks for card numbers again. Producers refuse them, but a payload enqueued by SQL bypasses that check. */
function faultOfCardNumbers({ fields }: LoadedContract, payload: JsonObject): PayloadFault | undefined {
  if (fields.length === 0) return undefined
  try {
    refuseCardNumbers(payload, fields)
    return undefined
  } catch (error) {
    if (!(error instanceof InvalidPayloadError)) throw error
    return fault('CARD_NUMBER_REFUSED', error.message)
  }
}

function faultOfMoney(payload: JsonObject): PayloadFault | undefined {
  try {
    parseMoney(payload['amount'], payload['currency'])
    return undefined
  } catch (error) {
    if (!(error instanceof InvalidArgumentError || error instanceof ArgumentRangeError)) throw error
    return fault(error.argument === 'currency' ? 'INVALID_CURRENCY' : 'INVALID_AMOUNT', error.message)
  }
}

function faultOfDestination(
  rail: LoadedContract,
  destination: unknown,
): PayloadFault | undefined | Promise<PayloadFault | undefined> {
  if (typeof rail.destination === 'function') return faultByRail(rail, rail.destination, destination)
  if (typeof destination !== 'string' || destination === '') {
    return fault('INVALID_DESTINATION', 'destination: expected text that is not empty')
  }
  const kind = rail.destination ?? detectDestinationKind(destination)
  const verdict = isDestination[kind](destination)
  return typeof verdict === 'boolean' ? destinationFault(kind, verdict) : destinationFaultLater(kind, verdict)
}

function destinationFault(kind: DestinationKind, isValid: boolean): PayloadFault | undefined {
  return isValid ? undefined : fault('INVALID_DESTINATION', DESTINATION_EXPECTED[kind])
}

function destinationFaultLater(kind: DestinationKind, verdict: Promise<boolean>): Promise<PayloadFault | undefined> {
  return verdict.then((isValid) => destinationFault(kind, isValid))
}

function faultByRail(
  rail: LoadedContract,
  isValidDestination: (destination: unknown) => unknown,
  destination: unknown,
): PayloadFault | undefined | Promise<PayloadFault | undefined> {
  return whenSettled(inTime(rail, isValidDestination(destination)), (isValid) => {
    if (typeof isValid !== 'boolean') throw new PayloadCheckError('did not return true or false')
    return isValid ? undefined : fault('INVALID_DESTINATION', 'destination: refused by the rail')
  })
}

const DESTINATION_EXPECTED = {
  iban: 'destination: expected an IBAN with a valid checksum, without spaces, in capitals',
  phone: 'destination: expected a phone number in E.164 form, such as +49 and its digits without spaces',
  account:
    'destination: expected an account of at most 64 letters and digits, with single separators - _ . : / @ inside',
} as const

function faultBySchema(
  rail: LoadedContract,
  payload: JsonObject,
): PayloadFault | undefined | Promise<PayloadFault | undefined> {
  const standard = rail.payload?.['~standard']
  if (standard === undefined) return undefined
  return whenSettled(inTime<StandardResult>(rail, standard.validate(payload)), (result) => faultOf(result, payload))
}

function faultOf({ issues }: StandardResult, payload: JsonObject): PayloadFault | undefined {
  if (issues === undefined) return undefined
  const places = new Set(issues.slice(0, ISSUES_SHOWN_MAX).map((issue) => placeOf(issue, payload)))
  const more = issues.length > ISSUES_SHOWN_MAX ? ` and ${issues.length - ISSUES_SHOWN_MAX} more` : ''
  return fault('INVALID_PAYLOAD', `refused by the schema at ${[...places].join(', ')}${more}`)
}

const ISSUES_SHOWN_MAX = 5

/** Limits an asynchronous result to the rail's timeout, because a validator may hang. */
function inTime<Result>({ timeoutMs }: LoadedContract, result: Result | PromiseLike<Result>): Result | Promise<Result> {
  if (isThenable(result)) return settledInTime(result, timeoutMs)
  return result
}

async function settledInTime<Result>(result: PromiseLike<Result>, timeoutMs: number): Promise<Result> {
  const { settled } = await withDeadline(async () => result, { timeoutMs })
  if (settled === undefined) throw new PayloadCheckError(`did not end within ${timeoutMs} ms`)
  if (settled.how === 'threw') throw settled.error
  return settled.value
}

function isThenable<Result>(result: Result | PromiseLike<Result>): result is PromiseLike<Result> {
  return typeof result === 'object' && result !== null && 'then' in result && typeof result.then === 'function'
}

function placeOf({ path = [] }: StandardIssue, payload: JsonObject): string {
  let place = 'payload'
  let container: unknown = payload
  for (const segment of path) {
    const key = typeof segment === 'object' ? segment.key : segment
    if (typeof container !== 'object' || container === null || typeof key === 'symbol') return place
    place = typeof key === 'number' ? indexPath(place, key) : keyPath(place, key, Object.keys(container).indexOf(key))
    container = Reflect.get(container, key)
  }
  return place
}

function fault(code: PayloadFaultCode, message: string): PayloadFault {
  return { ok: false, code, message, retryable: false }
}

function nameOf(error: unknown): string {
  return error instanceof Error ? error.constructor.name : typeof error
}

/** Reason of a failed check, without any value. Internal to this file. */
class PayloadCheckError extends SymphonyError {
  constructor(message: string) {
    super('PAYLOAD_CHECK_FAILED', message)
  }
}

/**
 * Checks by kind of destination. Tables of countries are loaded by the first payment that needs them, so that a process
 * that only enqueues starts faster. The loaded check is kept, because a repeated import would cost more than the check
 * itself.
 */
const isDestination: Readonly<Record<DestinationKind, (text: string) => boolean | Promise<boolean>>> = {
  iban: (text) => isIban?.(text) ?? loadIbans().then((check) => check(text)),
  phone: (text) => E164.test(text) && (isPossible?.(text) ?? loadPhones().then((check) => check(text))),
  account: (text) => ACCOUNT.test(text),
}

type Check = (text: string) => boolean
let isIban: Check | undefined
let isPossible: Check | undefined

async function loadIbans(): Promise<Check> {
  const { isValidBBAN } = await import('ibantools')
  return (isIban = (text) => hasIbanCheckDigits(text) && isValidBBAN(text.slice(4), text.slice(0, 2)))
}

/**
 * Checks the check digits by ISO 7064 mod 97-10, as ISO 13616 requires: they must equal 98 minus the remainder over
 * account and country. The simpler test over the whole IBAN would also accept 00, 01 and 99. Letters count as two
 * digits. Computed character by character, because a library that builds a number of sixty digits took longer than all
 * other checks of a payment.
 */
function hasIbanCheckDigits(text: string): boolean {
  let rest = 0
  for (let at = 4; at < text.length + 2; at += 1) {
    const code = text.charCodeAt(at < text.length ? at : at - text.length)
    if (code >= ZERO && code <= NINE) rest = (rest * 10 + code - ZERO) % 97
    else if (code >= LETTER_A && code <= LETTER_Z) rest = (rest * 100 + code - LETTER_A + 10) % 97
    else return false
  }
  const tens = text.charCodeAt(2) - ZERO
  const ones = text.charCodeAt(3) - ZERO
  return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 && tens * 10 + ones === 98 - ((rest * 100) % 97)
}

const ZERO = 48
const NINE = 57
const LETTER_A = 65
const LETTER_Z = 90

/**
 * Loads the check of E.164 numbers: the country code exists, and its numbering plan allows the length. Does not check
 * whether the number is assigned: plans change every week, and an old table must not fail a payment.
 */
async function loadPhones(): Promise<Check> {
  const { parsePhoneNumberFromString } = await import('#phone-numbers')
  return (isPossible = (text) => parsePhoneNumberFromString(text)?.isPossible() === true)
}

/** Returns the kind for a rail that declares none. Text that looks like a phone number or an IBAN must be one. */
function detectDestinationKind(text: string): DestinationKind {
  if (text.startsWith('+')) return 'phone'
  return IBAN_SHAPE.test(text) ? 'iban' : 'account'
}

const E164 = /^\+[1-9]\d{1,14}$/

/**
 * Shape of an IBAN: two letters, two check digits, then at least eleven more characters, also with spaces or in lower
 * case.
 */
const IBAN_SHAPE = /^[A-Z]{2}\d{2}[ ]?(?:[A-Z0-9][ ]?){10,29}[A-Z0-9]$/i

/**
 * Account numbers, wallet and merchant ids: ASCII letters and digits, with single separators inside. At most 64
 * characters, because the limit of ISO 20022, 34, would refuse a UUID, which wallets use.
 */
const ACCOUNT = /^(?=.{1,64}$)[A-Za-z0-9]+(?:[-_.:/@][A-Za-z0-9]+)*$/
