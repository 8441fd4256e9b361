import { open } from 'node:fs/promises'

/** Payments of the rail under one reference. */
export interface RailEffect {
  readonly reference: string
  /** Number of payments. More than 1 is a double payment. */
  readonly count: number
  /**
   * Number of later lines with `once`, which paid nothing: several processes wrote the reference at the same moment.
   */
  readonly repeats: number
  /** The rail's own reference of the first payment. Amount, currency and time are also those of the first payment. */
  readonly railReference: string
  readonly amount: string | null
  readonly currency: string | null
  readonly at: string
}

/**
 * Reads the rail book by reference, for an auditor who trusts only the file. Rejects if the file is missing, so that a
 * wrong path does not look like a rail without payments.
 *
 * A line with `once` is a payment only if no earlier line has its reference. This rule replaces a lock between
 * processes that write at the same moment.
 */
export async function readBook(file: string): Promise<ReadonlyMap<string, RailEffect>> {
  const effects = new Map<string, RailEffect>()
  const handle = await open(file, 'r')
  try {
    for await (const text of handle.readLines()) {
      const line = decodeLine(text)
      if (line === undefined) continue
      const { reference, railReference, amount, currency, at, once } = line
      const earlier = effects.get(reference)
      if (earlier === undefined) {
        effects.set(reference, { reference, count: 1, repeats: 0, railReference, amount, currency, at })
      } else if (once) {
        effects.set(reference, { ...earlier, repeats: earlier.repeats + 1 })
      } else {
        effects.set(reference, { ...earlier, count: earlier.count + 1 })
      }
    }
  } finally {
    await handle.close()
  }
  return effects
}

export interface BookLine {
  readonly reference: string
  readonly railReference: string
  readonly amount: string | null
  readonly currency: string | null
  readonly once: boolean
  /** Time in ISO 8601. */
  readonly at: string
}

/**
 * Returns the bytes of one write. They begin with a line feed, because the previous writer may have been killed during
 * its write. Its fragment then becomes a separate line, which is not JSON and therefore no payment.
 */
export function encodeLines(lines: readonly BookLine[]): Buffer {
  return Buffer.from(`\n${lines.map((line) => JSON.stringify(line)).join('\n')}\n`)
}

/** Parses a line. Returns undefined for an empty line or the fragment of a killed writer. */
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
