/**
 * Names a place inside a JSON value for an error message: `payload.items[3].amount`.
 * A key is shown only if it looks like a field name. Anything else may be data (a card number used as a key), so it
 * is named by its position: `payload[key 2]`.
 */
export function keyPath(parent: string, key: string, position: number): string {
  return FIELD_NAME.test(key) ? `${parent}.${key}` : `${parent}[key ${position + 1}]`
}

export function indexPath(parent: string, index: number): string {
  return `${parent}[${index}]`
}

const FIELD_NAME = /^[A-Za-z_$][\w$-]{0,63}$/
