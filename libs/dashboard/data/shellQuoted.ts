/** Quotes a text as one shell word, because copied commands contain names chosen by other people. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
