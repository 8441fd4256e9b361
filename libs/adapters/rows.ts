/** Returns the rows of an answer, which is a list or an object with `rows`. */
export function rowsIn<R>(answer: unknown): R[] {
  const rows: unknown = Array.isArray(answer) ? [...answer] : Reflect.get(Object(answer), 'rows')
  return isList<R>(rows) ? rows : []
}

/** Returns whether the value is a list. The caller states the type of its elements, which depends on the statement. */
function isList<R>(value: unknown): value is R[] {
  return Array.isArray(value)
}

/** Restores column names that a library changed to camel case. All our columns are in snake case. */
export function snakeCased(row: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(Object(row)).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}
