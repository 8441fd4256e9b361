import * as fc from 'fast-check'

/** The parts of JSON Schema that the API uses. */
export interface Schema {
  readonly type?: unknown
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: unknown
  readonly required?: readonly string[]
  readonly items?: unknown
  readonly minimum?: number
  readonly maximum?: number
}

/**
 * Generates values that fit a schema, and some that nearly do. Strings are often known words, so that values pass the
 * first check.
 */
export function valueOf(schema: Schema, words: readonly string[]): fc.Arbitrary<unknown> {
  return fc.oneof(
    { weight: 19, arbitrary: fitting(schema, words) },
    { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  )
}

function fitting(schema: Schema, words: readonly string[]): fc.Arbitrary<unknown> {
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum)
  if (schema.anyOf !== undefined) return fc.oneof(...schema.anyOf.map((one) => valueOf(one, words)))
  switch (schema.type) {
    case 'string':
      return fc.oneof(
        { weight: 6, arbitrary: fc.constantFrom(...words) },
        { weight: 1, arbitrary: fc.uuid() },
        { weight: 1, arbitrary: fc.string({ maxLength: 300, unit: 'binary' }) },
      )
    case 'integer':
      return fc.oneof(fc.integer({ min: schema.minimum ?? 0, max: schema.maximum ?? 1_000 }), fc.maxSafeInteger())
    case 'number':
      return fc.double()
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'array':
      return fc.array(isSchema(schema.items) ? valueOf(schema.items, words) : fc.jsonValue(), { maxLength: 3 })
    case 'object':
      return schema.properties === undefined
        ? fc.dictionary(fc.string(), fc.jsonValue({ maxDepth: 4 }))
        : object(schema.properties, schema.required ?? [], words)
    default:
      return fc.jsonValue({ maxDepth: 3 })
  }
}

function object(
  properties: Readonly<Record<string, Schema>>,
  required: readonly string[],
  words: readonly string[],
): fc.Arbitrary<unknown> {
  const fields = Object.fromEntries(Object.entries(properties).map(([name, schema]) => [name, valueOf(schema, words)]))
  return fc.oneof(
    { weight: 9, arbitrary: fc.record(fields, { requiredKeys: [...required] }) },
    { weight: 1, arbitrary: fc.record({ ...fields, surprise: fc.jsonValue() }, { requiredKeys: [] }) },
  )
}

function isSchema(value: unknown): value is Schema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
