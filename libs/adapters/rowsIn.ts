/** The rows of an answer: a list, or an object that has it as `rows`. */
export function rowsIn<R>(answer: unknown): R[] {
  const rows: unknown = Array.isArray(answer) ? [...answer] : Reflect.get(Object(answer), 'rows')
  return isList<R>(rows) ? rows : []
}

/** What the elements are is known to whoever wrote the statement. */
function isList<R>(value: unknown): value is R[] {
  return Array.isArray(value)
}
