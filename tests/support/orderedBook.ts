import { appendFile, readFile } from 'node:fs/promises'

/** One line of the book: a payment arrived at the rail, or a person let a halted stream go on. */
export type OrderedLine =
  | {
      readonly what: 'arrived'
      readonly participant: string
      readonly sequence: number
      /** What the rail did about it: `hangs` until the process that called is killed. */
      readonly fate: 'success' | 'terminal' | 'retryable' | 'throws' | 'hangs'
      readonly pid: number
    }
  | { readonly what: 'resumed'; readonly participant: string }

/** What a rail saw, in the order in which it saw it, over all processes that called it: one O_APPEND write per line. */
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
   * A rail that keeps this book, for a file of rails. Its fates depend on the seed, the payment and the attempt alone; the
   * first call of an instruction that is to hang does.
   */
  declaration(seed: string, hanging: readonly string[]): string {
    return `type: 'ORDERED', onUnknown: 'resend', concurrency: 8,
      dispatch: async ({ reference, participantId, sequenceId, instructionId, attempt }) => {
        const { appendFileSync } = await import('node:fs')
        const { createHash } = await import('node:crypto')
        const die = createHash('sha256').update([${JSON.stringify(seed)}, instructionId, attempt].join(' ')).digest()[0]
        const hangs = attempt === 1 && ${JSON.stringify(hanging)}.includes(instructionId)
        const fate = hangs ? 'hangs' : die < 170 ? 'success' : die < 210 ? 'retryable' : die < 235 ? 'throws' : 'terminal'
        const line = { what: 'arrived', participant: participantId, sequence: Number(sequenceId), fate, pid: process.pid }
        appendFileSync(${JSON.stringify(this.path)}, JSON.stringify(line) + '\\n')
        if (fate === 'throws') throw new Error('the connection broke')
        if (fate === 'retryable') return { outcome: 'retryable', code: 'BUSY' }
        if (fate === 'terminal') return { outcome: 'terminal', code: 'CLOSED' }
        if (fate === 'hangs') return new Promise(() => {})
        return { outcome: 'success', reference: 'paid-' + reference }
      }`
  }
}

/** What of a participant's lines breaks the order. `halts`: whether a failure stops the stream until somebody resumes it. */
export function orderDefects(lines: readonly OrderedLine[], halts: boolean): string[] {
  const defects: string[] = []
  let highest = 0
  let refused: number | undefined
  for (const line of lines) {
    if (line.what === 'resumed') {
      refused = undefined
      continue
    }
    const { sequence, fate } = line
    if (sequence < highest) defects.push(`${sequence} arrived after ${highest}`)
    if (sequence > highest + 1) defects.push(`${sequence} arrived before ${highest + 1}`)
    // The same again is a worker that was killed before it could record the refusal.
    if (halts && refused !== undefined && sequence !== refused)
      defects.push(`${sequence} passed the failure of ${refused}`)
    highest = Math.max(highest, sequence)
    refused = fate === 'terminal' ? sequence : undefined
  }
  return defects
}
