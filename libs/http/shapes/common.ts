import { Type, type Static, type TProperties, type TSchema } from '#typebox'
import type { JsonObject } from '../../core/index.js'

/** Shared parts of the JSON shapes. A shape allows no additional fields. */

export function shape<Properties extends TProperties>(properties: Properties, options: { description?: string } = {}) {
  return Type.Object(properties, { ...options, additionalProperties: false })
}

export function nullable<Schema extends TSchema>(schema: Schema) {
  return Type.Union([schema, Type.Null()])
}

export function oneOf<const Words extends string[]>(words: readonly [...Words], description?: string) {
  return Type.Enum([...words], { type: 'string', ...(description === undefined ? {} : { description }) })
}

export const Id = Type.String({
  minLength: 1,
  maxLength: 128,
  pattern: '^[!-~]+$',
  description: 'printable ASCII characters without spaces',
})

export const Uuid = Type.String({
  pattern: '^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$',
  description: 'a UUID',
})

/** Number that may exceed 2^53, as text, so that every JSON parser keeps its digits. */
export const WholeNumber = Type.String({ pattern: '^-?[0-9]+$', description: 'a whole number, as text' })

export const Timestamp = Type.String({
  pattern: '^[0-9]{4,6}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3,6}Z$',
  description: 'time of the database’s clock, in UTC, with up to microseconds',
})

/** Any JSON object. The parser of the body has checked its keys, numbers and depth. */
export const JsonObjectShape = Type.Unsafe<JsonObject>({ type: 'object' })

/** Opaque position at the end of a page. Only the list that created the cursor accepts it. */
export const Cursor = Type.String({ minLength: 1, maxLength: 4_096, pattern: '^[A-Za-z0-9_-]+$' })

export function pageOf<Item extends TSchema>(item: Item) {
  return shape({
    items: Type.Array(item),
    /** Cursor of the next page; null on the last page. Even an empty page may have a next one. */
    next: nullable(Cursor),
  })
}

export const Changed = shape({ changed: Type.Boolean({ description: 'false: nothing changed' }) })
export type Changed = Static<typeof Changed>
