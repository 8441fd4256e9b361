/** A statement cut at its placeholders, for libraries that number parameters themselves. */
export interface CutStatement {
  /** One more than there are placeholders. */
  readonly fragments: string[]
  /** The parameter that stands at each of them. */
  readonly values: unknown[]
}

/** Quoted names and texts are stepped over: a schema may be called `$1`. */
const PLACEHOLDER = /"(?:[^"]|"")*"|'(?:[^']|'')*'|\$(\d+)/g

export function cutAtPlaceholders(text: string, values: readonly unknown[]): CutStatement {
  const cut: CutStatement = { fragments: [], values: [] }
  let start = 0
  for (const match of text.matchAll(PLACEHOLDER)) {
    if (match[1] === undefined) continue
    cut.fragments.push(text.slice(start, match.index))
    cut.values.push(values[Number(match[1]) - 1])
    start = match.index + match[0].length
  }
  cut.fragments.push(text.slice(start))
  return cut
}
