import type { TObject } from 'typebox'

/**
 * A query as its schema means it: everything in an address is text, so what should be a number or a switch is read here, and
 * only in its plain spelling. What cannot be read stays as it is, and the schema refuses it.
 */
export function readQuery(schema: TObject, raw: unknown): Readonly<Record<string, unknown>> {
  const given = typeof raw === 'object' && raw !== null ? Object.entries(raw) : []
  return Object.fromEntries(given.map(([name, value]) => [name, readValue(kindOf(schema, name), value)]))
}

function readValue(kind: string | undefined, value: unknown): unknown {
  if (typeof value !== 'string') return value
  if (kind === 'integer' && /^(?:0|[1-9]\d{0,8})$/.test(value)) return Number(value)
  if (kind === 'boolean' && (value === 'true' || value === 'false')) return value === 'true'
  return value
}

function kindOf({ properties }: TObject, name: string): string | undefined {
  const property = Object.hasOwn(properties, name) ? properties[name] : undefined
  return property !== undefined && 'type' in property ? String(property.type) : undefined
}
