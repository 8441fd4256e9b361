import { AppError, InvalidArgumentError } from '../core/index.js'
import { DatabaseError } from '../db/index.js'
import type { Cli } from './Cli.js'
import { printResult } from './operator.js'
import { ProgressBar } from './ProgressBar.js'
import type { GivenFlags } from './resolveSettings.js'

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
  throw new AppError(code, `${refusedOf(refused.length, done.length + refused.length)}.`, {
    remedy: 'Each is named above with its reason.',
  })
}

function refusedOf(refused: number, all: number): string {
  return `${refused} of ${all} ${refused === 1 ? 'was' : 'were'} refused`
}

export function describeRefusals({ refused }: Decided<object>): readonly string[] {
  return refused.map(({ code, message }) => `refused: ${code} ${message}`)
}

/**
 * Decides about each proposal in a transaction of its own. Of several, each refusal is printed with its id and the others go on.
 * A fault of the database, or a signal, ends the command and names the ids that have no answer.
 */
export async function decideEachProposal(
  proposalIds: readonly string[],
  decide: (proposalId: string) => Promise<void>,
  code: string,
  flags: GivenFlags,
  cli: Cli,
): Promise<void> {
  const ids = [...new Set(proposalIds)]
  let refused = 0
  for (const [index, proposalId] of ids.entries()) {
    try {
      cli.signal.throwIfAborted()
      await decide(proposalId)
    } catch (error) {
      if (ids.length === 1) throw error
      if (!isRefusal(error)) {
        cli.terminal.note(`No answer for: ${ids.slice(index).join(' ')}`)
        throw error
      }
      refused += 1
      const { code: reason, message } = error
      const sentence = `${proposalId} is refused: ${reason} ${message}`
      printResult({ proposalId, refused: { code: reason, message } }, sentence, flags, cli)
    }
  }
  if (refused === 0) return
  throw new AppError(code, `${refusedOf(refused, ids.length)}; the others are done.`, {
    remedy: 'Each refused id is named above with its reason.',
  })
}

/** True if the error concerns one proposal: the database refused it, it is not open, or its id is malformed. */
function isRefusal(error: unknown): error is AppError | InvalidArgumentError {
  if (error instanceof DatabaseError) return error.disposition === 'fatal'
  return error instanceof InvalidArgumentError || (error instanceof AppError && error.code === 'PROPOSAL_NOT_FOUND')
}
