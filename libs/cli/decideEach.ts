import { AppError } from '../core/index.js'
import { DatabaseError } from '../db/index.js'
import type { Cli } from './Cli.js'
import { ProgressBar } from './ProgressBar.js'

export interface Refusal {
  readonly outboxId: string
  readonly code: string
  readonly message: string
}

export interface Decided<Result> {
  readonly done: readonly (Result & { readonly outboxId: string })[]
  readonly refused: readonly Refusal[]
}

/** Decides about each payment in a transaction of its own. A refusal concerns one of them, and the others go on. */
export async function decideEach<Result extends object>(
  outboxIds: readonly string[],
  decide: (outboxId: string) => Promise<Result>,
  { terminal, signal }: Cli,
): Promise<Decided<Result>> {
  const done: (Result & { readonly outboxId: string })[] = []
  const refused: Refusal[] = []
  const bar = new ProgressBar(terminal, outboxIds.length)
  for (const outboxId of outboxIds) {
    signal.throwIfAborted()
    try {
      done.push({ outboxId, ...(await decide(outboxId)) })
    } catch (error) {
      // Another person was faster, or the rail was reported to have paid it after all.
      if (!(error instanceof DatabaseError) || error.disposition !== 'fatal') throw error
      refused.push({ outboxId, code: error.code, message: error.message })
    }
    bar.show(done.length + refused.length)
  }
  bar.clear()
  return { done, refused }
}

/** Ends the command with an error if any was refused. Each is listed in the output before. */
export function requireNoRefusal(code: string, { done, refused }: Decided<object>): void {
  if (refused.length === 0) return
  throw new AppError(code, `${refused.length} of ${done.length + refused.length} were refused.`, {
    remedy: 'Each is named above with its reason.',
  })
}

export function describeRefusals({ refused }: Decided<object>): readonly string[] {
  return refused.map(({ code, message }) => `refused: ${code} ${message}`)
}
