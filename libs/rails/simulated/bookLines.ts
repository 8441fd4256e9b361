/** A line of the book. */
export interface BookLine {
  readonly reference: string
  readonly railReference: string
  readonly amount: string | null
  readonly currency: string | null
  readonly once: boolean
  /** ISO 8601. */
  readonly at: string
}

/**
 * What is written in one piece. It begins with a line feed, because the writer before may have been killed in the
 * middle of its own: then its fragment becomes a line of its own, which is not JSON and therefore not a payment.
 */
export function encodeLines(lines: readonly BookLine[]): Buffer {
  return Buffer.from(`\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n`)
}

/** Undefined for what is no payment: the gap between two writes, or the fragment a killed writer left. */
export function decodeLine(text: string): BookLine | undefined {
  if (text === '') return undefined
  try {
    const line: unknown = JSON.parse(text)
    return isBookLine(line) ? line : undefined
  } catch {
    return undefined
  }
}

function isBookLine(line: unknown): line is BookLine {
  return (
    typeof line === 'object' &&
    line !== null &&
    'reference' in line &&
    typeof line.reference === 'string' &&
    'railReference' in line &&
    typeof line.railReference === 'string' &&
    'once' in line &&
    typeof line.once === 'boolean'
  )
}
