/** Returns a count with its noun: `1 payment`, `2 payments`. */
export function countOf(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
