/**
 * The row under the names that the server gave its columns, where a library was told to write them in camel case. All our
 * columns are in snake case, so a capital letter can only come from there.
 */
export function snakeCased(row: unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(Object(row)).map(([name, value]) => [
      name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  )
}
