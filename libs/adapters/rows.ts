/** Returns the rows of an answer: the answer itself if it is a list, else its `rows`. */
export function rowsIn<R>(answer: unknown): R[] {
  const rows: unknown = Array.isArray(answer) ? [...answer] : Reflect.get(Object(answer), 'rows')
  return isList<R>(rows) ? rows : []
}

function isList<R>(value: unknown): value is R[] {
  return Array.isArray(value)
}

/** Restores column names that a library changed to camel case. All columns of Symphony are in snake case. */
export function snakeCased(row: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(Object(row)).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}
