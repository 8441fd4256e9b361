import { InvalidArgumentError, isObject, rejectUnknownKeys, requiredId } from '../core/index.js'
import type { RailDeclaration } from '../rails/index.js'

/** Fields that all broker rails share. A broker rail implements the calls itself and has no table of codes. */
export type BrokerDeclaration<Type extends string, Payload extends object> = Omit<
  RailDeclaration<Type, Payload>,
  'dispatch' | 'queryStatus' | 'codes' | 'onUnknown'
>

/**
 * Policy for brokers that keep every copy of a message. `resend` is safe only if every consumer handles each id once.
 * There is no default, because only the operator of the consumers knows that.
 */
export type AtLeastOncePolicy =
  | {
      readonly onUnknown: 'resend'
      /**
       * Declares that every consumer handles each id once, for example by an inbox, for as long as messages may be
       * resent. Must be true.
       */
      readonly consumersDeduplicate: true
    }
  | { readonly onUnknown: 'hold'; readonly consumersDeduplicate?: never }

/** Returns the full name of a broker option, for errors. */
type FieldName = (name: string) => string

/** Checks that the broker's options are an object without unknown keys. Returns a function that names its fields. */
export function fieldsOf(type: unknown, broker: string, given: object, keys: readonly string[]): FieldName {
  const rail = `rail "${requiredId('type', type)}"`
  if (!isObject(given)) {
    throw new InvalidArgumentError(`${rail}, ${broker}`, `expected an object with ${keys.slice(0, 2).join(' and ')}`)
  }
  const field = (name: string) => `${rail}, ${broker}.${name}`
  rejectUnknownKeys(given, keys, field)
  return field
}

/** Checks `consumersDeduplicate`, and returns the declaration without it. */
export function readAtLeastOnce<Declared extends AtLeastOncePolicy & { readonly type: string }>(
  declared: Declared,
): Omit<Declared, 'consumersDeduplicate'> {
  const { consumersDeduplicate, ...declaration } = declared
  const { type, onUnknown } = declared
  if (onUnknown === 'resend' && consumersDeduplicate !== true) {
    throw new InvalidArgumentError(
      `rail "${type}", consumersDeduplicate`,
      'expected true, because onUnknown is "resend": this broker keeps every copy, so only its consumers can see to it ' +
        'that each id is handled once. If they do not, say onUnknown: "hold"',
    )
  }
  refusePolicy(type, onUnknown, ['resend', 'hold'])
  if (onUnknown === 'hold' && consumersDeduplicate !== undefined) {
    throw new InvalidArgumentError(`rail "${type}", consumersDeduplicate`, 'expected none: only "resend" needs it')
  }
  return declaration
}

export function refusePolicy(type: string, policy: unknown, known: readonly string[]): void {
  if (typeof policy === 'string' && known.includes(policy)) return
  throw new InvalidArgumentError(
    `rail "${type}", onUnknown`,
    `expected ${known.map((one) => `"${one}"`).join(' or ')} at this broker, got ${JSON.stringify(policy) ?? typeof policy}`,
  )
}

/** Checks that the user's client has the methods that the rail calls. */
export function requireMethods(field: string, client: unknown, methods: readonly string[]): void {
  const hasMethods = (typeof client === 'object' && client !== null) || typeof client === 'function'
  const missing = hasMethods ? methods.filter((name) => typeof Reflect.get(client, name) !== 'function') : methods
  if (missing.length > 0) {
    throw new InvalidArgumentError(field, `expected a client with ${missing.map((name) => `${name}()`).join(' and ')}`)
  }
}
