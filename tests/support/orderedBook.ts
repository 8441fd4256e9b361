import { appendFile, readFile } from 'node:fs/promises'

/** One line of the book: a payment reached the rail, or a halted stream was resumed. */
export type OrderedLine =
  | {
      readonly what: 'arrived'
      readonly participant: string
      readonly sequence: number
      /** Reaction of the rail. `hangs` lasts until the calling process is killed. */
      readonly answer: 'success' | 'terminal' | 'retryable' | 'throws' | 'hangs'
      readonly pid: number
    }
  | { readonly what: 'resumed'; readonly participant: string }

/** Calls that a rail received from all processes, in order. Each line is one O_APPEND write. */
export class OrderedBook {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  async read(): Promise<OrderedLine[]> {
    const text = await readFile(this.path, 'utf8')
    return text
      .split('\n')
      .filter(Boolean)
      .map((line): OrderedLine => JSON.parse(line))
  }

  async arrivals(): Promise<Extract<OrderedLine, { what: 'arrived' }>[]> {
    return (await this.read()).filter((line) => line.what === 'arrived')
  }

  async resumed(participant: string): Promise<void> {
    await appendFile(this.path, `${JSON.stringify({ what: 'resumed', participant })}\n`)
  }

  /**
   * Returns the declaration of a rail that writes this book. Its answers depend only on seed, payment and attempt. It
   * never answers the first call of each instruction in `hanging`.
   */
  declaration(seed: string, hanging: readonly string[]): string {
    return `type: 'ORDERED', onUnknown: 'resend', concurrency: 8,
      dispatch: async ({ reference, participantId, sequenceId, instructionId, attempt }) => {
        const { appendFileSync } = await import('node:fs')
        const { createHash } = await import('node:crypto')
        const die = createHash('sha256').update([${JSON.stringify(seed)}, instructionId, attempt].join(' ')).digest()[0]
        const hangs = attempt === 1 && ${JSON.stringify(hanging)}.includes(instructionId)
        const answer = hangs ? 'hangs' : die < 170 ? 'success' : die < 210 ? 'retryable' : die < 235 ? 'throws' : 'terminal'
        const line = { what: 'arrived', participant: participantId, sequence: Number(sequenceId), answer, pid: process.pid }
        appendFileSync(${JSON.stringify(this.path)}, JSON.stringify(line) + '\\n')
        if (answer === 'throws') throw new Error('the connection broke')
        if (answer === 'retryable') return { outcome: 'retryable', code: 'BUSY' }
        if (answer === 'terminal') return { outcome: 'terminal', code: 'CLOSED' }
        if (answer === 'hangs') return new Promise(() => {})
        return { outcome: 'success', reference: 'paid-' + reference }
      }`
  }
}

/**
 * Returns violations of the order in a participant's lines. `halts`: whether a failure stops the stream until it is
 * resumed.
 */
export function orderDefects(lines: readonly OrderedLine[], halts: boolean): string[] {
  const defects: string[] = []
  let highest = 0
  let refused: number | undefined
  for (const line of lines) {
    if (line.what === 'resumed') {
      refused = undefined
      continue
    }
    const { sequence, answer } = line
    if (sequence < highest) defects.push(`${sequence} arrived after ${highest}`)
    if (sequence > highest + 1) defects.push(`${sequence} arrived before ${highest + 1}`)
    // A repeat of the refused item is no defect: a worker was killed before it recorded the refusal.
    if (halts && refused !== undefined && sequence !== refused)
      defects.push(`${sequence} passed the failure of ${refused}`)
    highest = Math.max(highest, sequence)
    refused = answer === 'terminal' ? sequence : undefined
  }
  return defects
}
