import { systemClock, type Clock, type StopSignal } from '../core/index.js'
import { describeThrown } from './describeThrown.js'
import { judgeAnswer, judgeStatus, VERDICT_CODES, type Judgement, type Unpaid } from './judgeAnswer.js'
import type { LoadedRail } from './loadRails.js'
import { isNotSentError } from './NotSentError.js'
import { withholdFields, type Redact } from './fields/withholdFields.js'
import type { RailRequest } from './types.js'
import { TimedWork, withDeadline, type Ending, type Waited, type WorkContext } from './withDeadline.js'

/**
 * What became of a call.
 *
 * | kind | what is certain | what follows |
 * | --- | --- | --- |
 * | `success` | paid, under `reference` | DISPATCHED |
 * | `terminal` | not paid, and never will be | FAILED |
 * | `retryable` | not paid this time | tried again |
 * | `notSent` | nothing reached the rail | tried again; the rail, not the payment, is in trouble |
 * | `unknown` | nothing | the rail's `onUnknown` decides |
 */
export type RailVerdict = Judgement<'terminal' | 'retryable' | 'unknown' | 'notSent'> & Timed

/** What an inquiry found. `absent`: the rail has never seen the reference. */
export type StatusVerdict = Judgement<'terminal' | 'absent' | 'unknown'> & Timed

interface Timed {
  readonly latencyMs: number
}

export interface CallOptions {
  /** Ends the wait earlier than the rail's timeout: the end of the lease, a shutdown. */
  readonly signal?: StopSignal
  /** @default systemClock */
  readonly clock?: Clock
}

export interface DispatchOptions extends CallOptions {
  /**
   * Told what the adapter said after the call had been given up: evidence, too late to be the verdict. Not called for
   * what says nothing (a throw, garbage). It must not throw: nobody is left to catch it.
   */
  readonly onLateAnswer?: (verdict: RailVerdict) => void
}

/** The one way to send a payment. Returns a verdict by the rail's timeout, whatever the adapter does; never throws. */
export function callRail(rail: LoadedRail, request: RailRequest, options: DispatchOptions = {}): Promise<RailVerdict> {
  const call = new DispatchCall(rail, request, options)
  const { signal } = options
  return signal?.aborted === true ? Promise.resolve(call.notSent()) : call.within(rail.timeoutMs, signal)
}

/** One call of a rail's `dispatch`. */
class DispatchCall extends TimedWork<unknown, RailVerdict> {
  readonly #rail: LoadedRail
  readonly #request: RailRequest
  readonly #options: DispatchOptions
  readonly #startedMs: number
  /** Made before the call: an adapter may change the payload, and its secrets must not reach the ledger all the same. */
  readonly #redact: Redact

  constructor(rail: LoadedRail, request: RailRequest, options: DispatchOptions) {
    super()
    this.#rail = rail
    this.#request = request
    this.#options = options
    this.#startedMs = (options.clock ?? systemClock).monotonicMs()
    this.#redact = withholdFields(request.payload, rail.fields)
  }

  notSent(): RailVerdict {
    return this.#timed({ kind: 'notSent', code: VERDICT_CODES.aborted })
  }

  protected override work(context: WorkContext): unknown {
    return this.#rail.dispatch(this.#request, context)
  }

  protected override conclude(call: Waited<unknown>): RailVerdict {
    if (call.cut === undefined) return this.#judge(call.ending)
    if (call.ending === undefined) {
      void call.end.then((ending) => this.#reportLate(this.#judge(ending)))
    } else {
      const verdict = this.#judge(call.ending)
      // Of an aborted call only a clear answer counts: its error is our own doing.
      if (verdict.kind !== 'unknown') return verdict
    }
    return this.#timed(cutShort(call.cut, this.#rail))
  }

  #judge(ending: Ending<unknown>): RailVerdict {
    return this.#timed(judgeDispatch(this.#rail, ending, this.#redact))
  }

  #reportLate(verdict: RailVerdict): void {
    if (verdict.kind !== 'unknown') this.#options.onLateAnswer?.(verdict)
  }

  #timed<Judged extends object>(judgement: Judged): Judged & Timed {
    return timed(judgement, this.#options.clock ?? systemClock, this.#startedMs)
  }
}

/** Asks the rail what became of a reference. Never throws: whatever is not an answer is `unknown`. */
export async function inquireRail(
  rail: LoadedRail,
  request: RailRequest,
  { signal, clock = systemClock }: CallOptions = {},
): Promise<StatusVerdict> {
  const startedMs = clock.monotonicMs()
  const redact = withholdFields(request.payload, rail.fields)
  const { queryStatus } = rail
  if (queryStatus === undefined) return timed({ kind: 'unknown', code: VERDICT_CODES.notAskable }, clock, startedMs)
  const call = await withDeadline((context) => queryStatus(request, context), {
    timeoutMs: rail.timeoutMs,
    signal,
  })
  if (call.ending?.how === 'answered') return timed(judgeStatus(rail, call.ending.value, redact), clock, startedMs)
  const judged = call.cut === undefined ? judgeThrown(call.ending.error, redact) : cutShort(call.cut, rail)
  return timed(judged, clock, startedMs)
}

function judgeDispatch(
  rail: LoadedRail,
  ending: Ending<unknown>,
  redact: Redact,
): Judgement<'terminal' | 'retryable' | 'unknown' | 'notSent'> {
  if (ending.how === 'answered') return judgeAnswer(rail, ending.value, redact)
  const judged = judgeThrown(ending.error, redact)
  return isNotSentError(ending.error) ? { ...judged, kind: 'notSent', code: VERDICT_CODES.notSent } : judged
}

function judgeThrown(error: unknown, redact: Redact): Unpaid<'unknown'> {
  return { kind: 'unknown', code: VERDICT_CODES.threw, message: redact(describeThrown(error)) }
}

function cutShort(cut: 'timeout' | 'aborted', rail: LoadedRail): Unpaid<'unknown'> {
  return cut === 'timeout'
    ? { kind: 'unknown', code: VERDICT_CODES.timeout, message: `no answer within ${rail.timeoutMs} ms` }
    : { kind: 'unknown', code: VERDICT_CODES.aborted, message: 'the call was given up before it was answered' }
}

/** Adds to a judgement, which is its maker's no longer, how long it took. */
function timed<Judged extends object>(judgement: Judged, clock: Clock, startedMs: number): Judged & Timed {
  return Object.assign(judgement, { latencyMs: clock.monotonicMs() - startedMs })
}
