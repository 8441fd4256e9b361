import {
  ArgumentRangeError,
  boundedInteger,
  ERROR_CODE_LENGTH_MAX,
  InvalidArgumentError,
  isObject,
  nearestSpelling,
  rejectUnknownKeys,
  requiredId,
  requiredText,
  type Bounds,
  type JsonObject,
} from '../core/index.js'
import {
  rejectEncryptedFields,
  type DecryptPayload,
  overlap,
  readFieldRules,
  readPointer,
  type FieldRule,
} from './fields/fieldRules.js'
import type {
  StandardSchema,
  DestinationKind,
  DestinationValidator,
  Rail,
  RailAnswer,
  RailContext,
  RailOutcome,
  RailPayment,
  RailRequest,
  RailStatus,
  UnknownPolicy,
} from './types.js'

/** Rail after all checks, with defaults filled in. */
export interface LoadedRail {
  readonly type: string
  readonly onUnknown: UnknownPolicy
  readonly dispatch: (request: RailRequest, context: RailContext) => RailAnswer | Promise<RailAnswer>
  readonly queryStatus: ((request: RailRequest, context: RailContext) => RailStatus | Promise<RailStatus>) | undefined
  readonly payload: StandardSchema | undefined
  readonly money: boolean
  readonly destination: DestinationKind | DestinationValidator | undefined
  readonly timeoutMs: number
  readonly settleMs: number
  readonly concurrency: number | undefined
  readonly ratePerSecond: number | undefined
  readonly codes: ReadonlyMap<string, RailOutcome | 'absent'> | undefined
  readonly fields: readonly FieldRule[]
  /** Parts of the JSON pointer to the subject of the data; undefined if the subject is the participant. */
  readonly subject: readonly string[] | undefined
  /** Decrypts the payload before each dispatch and inquiry. Without keys it refuses encrypted fields. */
  readonly decryptPayload: DecryptPayload
  readonly listPayments:
    | ((period: { readonly from: Date; readonly to: Date }, context: RailContext) => AsyncIterable<RailPayment>)
    | undefined
  readonly accountOf: ((payload: JsonObject) => unknown) | undefined
  readonly settlementDays: number | undefined
  readonly close: () => Promise<void>
}

/** Part of a rail that a producer needs: its name, and the checks of a payload. */
export type LoadedContract = Pick<
  LoadedRail,
  'type' | 'payload' | 'money' | 'destination' | 'timeoutMs' | 'fields' | 'subject' | 'accountOf' | 'settlementDays'
>

export interface LoadOptions {
  /** Timeout of rails that declare none. @default 30000 */
  readonly timeoutMs?: number
}

export const RAIL_TIMEOUT_DEFAULT_MS = 30_000

/** Bounds of a rail's timeout. A lease lasts an hour at most, and must outlast a call by more than two seconds. */
export const RAIL_TIMEOUT_MS: Bounds = Object.freeze({ min: 1, max: 3_597_000 })

const RAILS = Object.freeze({ min: 1, max: 1_000 })
/** Maximum of `settleMs`: one week. If requests may arrive even later, declare `hold` instead of `inquire`. */
const SETTLE_MS_MAX = 604_800_000
const CONCURRENCY = Object.freeze({ min: 1, max: 10_000 })
const RATE_PER_SECOND = Object.freeze({ min: 0.001, max: 100_000 })
const CODES_MAX = 10_000
/** Bounds of `settlementDays`, the same as in `finish_reconciliation`. */
const SETTLEMENT_DAYS = Object.freeze({ min: 0, max: 60 })

/**
 * Checks the exports of a rail file. Returns the rails by type, with defaults filled in. Refuses a faulty declaration
 * at the start and names the rail and the field. Otherwise the first payment would find the fault.
 */
export function loadRails(rails: unknown, options: LoadOptions = {}): ReadonlyMap<string, LoadedRail> {
  if (!Array.isArray(rails)) throw new InvalidArgumentError('rails', `expected an array of rails, got ${kindOf(rails)}`)
  if (rails.length < RAILS.min || rails.length > RAILS.max) {
    throw new ArgumentRangeError('rails', `expected ${RAILS.min} to ${RAILS.max} rails, got ${rails.length}`)
  }
  const loaded = new Map<string, LoadedRail>()
  for (const [index, declared] of rails.entries()) {
    const rail = loadRail(declared, options, `rails[${index}]`)
    if (loaded.has(rail.type)) {
      throw new InvalidArgumentError(`rails[${index}].type`, `the rail "${rail.type}" is declared twice`)
    }
    loaded.set(rail.type, rail)
  }
  return loaded
}

/** Checks one rail. `place` names the rail in errors until its type is known. */
export function loadRail(declared: unknown, options: LoadOptions = {}, place = 'rail'): LoadedRail {
  requireRail(declared, place)
  const { fields, timeoutMs, ...contract } = loadContract(declared, options, place)
  const field = fieldOf(contract.type)
  const onUnknown = readOnUnknown(field('onUnknown'), declared['onUnknown'])
  requireCalls(declared, field)
  if (onUnknown === 'inquire' && declared.queryStatus === undefined) {
    throw new InvalidArgumentError(
      field('queryStatus'),
      'expected a function, because onUnknown is "inquire": without it the relayer cannot inquire',
    )
  }
  return Object.freeze({
    ...contract,
    onUnknown,
    // Called on the declared object, so that an adapter may use `this`.
    dispatch: (request: RailRequest, context: RailContext) => declared.dispatch(request, context),
    queryStatus: declared.queryStatus?.bind(declared),
    timeoutMs,
    settleMs: boundedInteger(field('settleMs'), declared['settleMs'] ?? timeoutMs, {
      min: timeoutMs,
      max: SETTLE_MS_MAX,
    }),
    concurrency: optional(declared['concurrency'], (value) => boundedInteger(field('concurrency'), value, CONCURRENCY)),
    ratePerSecond: optional(declared['rate'], (value) => readRate(field, value)),
    codes: optional(declared['codes'], (value) => readCodes(field('codes'), value)),
    fields,
    decryptPayload: rejectEncryptedFields(fields),
    listPayments: declared.listPayments?.bind(declared),
    close: async () => declared.close?.(),
  })
}

/** Checks the fields that a contract and a rail share. A contract needs neither an adapter nor `onUnknown`. */
export function loadContract(declared: unknown, options: LoadOptions = {}, place = 'rail'): LoadedContract {
  requireRail(declared, place)
  const timeoutDefaultMs = boundedInteger('timeoutMs', options.timeoutMs ?? RAIL_TIMEOUT_DEFAULT_MS, RAIL_TIMEOUT_MS)
  const type = requiredId(`${place}.type`, declared['type'])
  const field = fieldOf(type)
  rejectUnknownKeys(declared, KEYS, field)
  const fields = readFieldRules(field('fields'), declared['fields'] ?? {})
  return Object.freeze({
    type,
    payload: optional(declared['payload'], (value) => readSchema(field('payload'), value)),
    money: optional(declared['money'], (value) => readBoolean(field('money'), value)) ?? true,
    destination: optional(declared['destination'], (value) => readDestination(field('destination'), value)),
    timeoutMs: boundedInteger(field('timeoutMs'), declared['timeoutMs'] ?? timeoutDefaultMs, RAIL_TIMEOUT_MS),
    fields,
    subject: optional(declared['subject'], (value) => readSubject(field('subject'), value, fields)),
    accountOf: optional(declared['accountOf'], (value) => readAccountOf(field('accountOf'), value, declared)),
    settlementDays: optional(declared['settlementDays'], (value) =>
      boundedInteger(field('settlementDays'), value, SETTLEMENT_DAYS),
    ),
  })
}

function requireRail(declared: unknown, place: string): asserts declared is Record<string, unknown> {
  if (!isObject(declared)) throw new InvalidArgumentError(place, `expected a rail, got ${kindOf(declared)}`)
}

function fieldOf(type: string): (name: string) => string {
  return (name) => `rail "${type}", ${name}`
}

const KEYS: readonly (keyof Rail)[] = [
  'type',
  'onUnknown',
  'dispatch',
  'queryStatus',
  'payload',
  'money',
  'destination',
  'timeoutMs',
  'settleMs',
  'concurrency',
  'rate',
  'codes',
  'fields',
  'subject',
  'listPayments',
  'accountOf',
  'settlementDays',
  'close',
]

/** Checks the pointer to the subject. The subject must not be encrypted, because it selects the key. */
function readSubject(field: string, value: unknown, fields: readonly FieldRule[]): readonly string[] {
  const keys = readPointer(field, value)
  if (keys.includes('*')) throw new InvalidArgumentError(field, 'expected a JSON pointer without a star')
  const hiding = fields.find((rule) => rule.fieldClass === 'encrypted' && overlap(rule.keys, keys))
  if (hiding === undefined) return keys
  throw new InvalidArgumentError(field, `expected a field that is not encrypted, but "${hiding.pointer}" encrypts it`)
}

function readOnUnknown(field: string, value: unknown): UnknownPolicy {
  return readChoice(field, value, ['resend', 'inquire', 'hold'])
}

function readDestination(field: string, value: unknown): DestinationKind | DestinationValidator {
  if (isDestinationValidator(value)) return value
  return readChoice<DestinationKind>(field, value, ['iban', 'phone', 'account'], ' or a function')
}

function isDestinationValidator(value: unknown): value is DestinationValidator {
  return typeof value === 'function'
}

function readChoice<Choice extends string>(
  field: string,
  value: unknown,
  choices: readonly Choice[],
  alternative = '',
): Choice {
  const chosen = choices.find((choice) => choice === value)
  if (chosen !== undefined) return chosen
  const meant = typeof value === 'string' ? nearestSpelling(value, choices) : undefined
  throw new InvalidArgumentError(
    field,
    `expected ${choices.map((choice) => `"${choice}"`).join(', ')}${alternative}, got ${kindOf(value)}` +
      (meant === undefined ? '' : `; did you mean "${meant}"?`),
  )
}

function readAccountOf(field: string, value: unknown, declared: object): (payload: JsonObject) => unknown {
  if (typeof value !== 'function') throw new InvalidArgumentError(field, `expected a function, got ${kindOf(value)}`)
  return (payload) => Reflect.apply(value, declared, [payload])
}

export function readBoolean(field: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidArgumentError(field, `expected true or false, got ${kindOf(value)}`)
  return value
}

export function readSchema(field: string, value: unknown): StandardSchema {
  if (!isSchema(value)) {
    throw new InvalidArgumentError(field, 'expected a schema that implements Standard Schema version 1')
  }
  return value
}

function isSchema(value: unknown): value is StandardSchema {
  // Some validators are callable, so their schemas are functions.
  const standard: unknown = isObject(value) || typeof value === 'function' ? Reflect.get(value, '~standard') : undefined
  return isObject(standard) && standard['version'] === 1 && typeof standard['validate'] === 'function'
}

function readRate(field: (name: string) => string, value: unknown): number {
  if (!isObject(value)) {
    throw new InvalidArgumentError(field('rate'), `expected an object with perSecond, got ${kindOf(value)}`)
  }
  const unknownKey = Object.keys(value).find((key) => key !== 'perSecond')
  if (unknownKey !== undefined) {
    throw new InvalidArgumentError(field(`rate.${JSON.stringify(unknownKey)}`), 'unknown; expected perSecond only')
  }
  const { min, max } = RATE_PER_SECOND
  const perSecond = value['perSecond']
  if (typeof perSecond !== 'number') {
    throw new InvalidArgumentError(
      field('rate.perSecond'),
      `expected a number from ${min} to ${max}, got ${kindOf(perSecond)}`,
    )
  }
  // Written as a negation, so that NaN is refused too.
  if (!(perSecond >= min && perSecond <= max)) {
    throw new ArgumentRangeError(field('rate.perSecond'), `expected a number from ${min} to ${max}, got ${perSecond}`)
  }
  return perSecond
}

function readCodes(field: string, value: unknown): ReadonlyMap<string, RailOutcome | 'absent'> {
  if (!isObject(value)) {
    throw new InvalidArgumentError(field, `expected an object from code to outcome, got ${kindOf(value)}`)
  }
  const entries = Object.entries(value)
  if (entries.length === 0 || entries.length > CODES_MAX) {
    throw new ArgumentRangeError(field, `expected 1 to ${CODES_MAX} codes, got ${entries.length}`)
  }
  return new Map(
    entries.map(([code, outcome]) => [
      requiredText(`${field}, a code`, code, ERROR_CODE_LENGTH_MAX),
      readChoice(`${field}.${code}`, outcome, ['success', 'terminal', 'retryable', 'unknown', 'absent'] as const),
    ]),
  )
}

type Calls = Pick<Rail, 'dispatch' | 'queryStatus' | 'listPayments' | 'close'>

/** Checks only that the calls of a rail are functions. Each caller checks the arguments and the result. */
function requireCalls(
  declared: Record<string, unknown>,
  field: (name: string) => string,
): asserts declared is Record<string, unknown> & Calls {
  for (const name of ['dispatch', 'queryStatus', 'listPayments', 'close'] satisfies (keyof Calls)[]) {
    const value = declared[name]
    if (typeof value !== 'function' && (value !== undefined || name === 'dispatch')) {
      throw new InvalidArgumentError(field(name), `expected a function, got ${kindOf(value)}`)
    }
  }
}

function optional<Value>(value: unknown, read: (value: unknown) => Value): Value | undefined {
  return value === undefined ? undefined : read(value)
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'an array' : value === undefined ? 'nothing' : typeof value
}
