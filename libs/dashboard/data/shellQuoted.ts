/**
 * A text as one word of a shell. What the page offers to copy is pasted into a terminal, and names in it (a rail may be called
 * anything printable) come from whoever chose them.
 */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
