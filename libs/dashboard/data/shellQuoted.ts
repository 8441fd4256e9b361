/** Quotes a text as one word of a shell, because copied commands contain names that other people chose. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
