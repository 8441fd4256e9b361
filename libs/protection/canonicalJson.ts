import type { JsonValue } from '../core/index.js'

/**
 * One text for one value, whatever the order of its keys: jsonb forgets that order, so an instruction with its keys in another
 * order is the same instruction and must encrypt to the same bytes.
 */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return `{${members.map(([key, one]) => `${JSON.stringify(key)}:${canonicalJson(one)}`).join(',')}}`
}
