import { systemClock, type Clock } from '../core/index.js'
import {
  classifyAnswer,
  classifyStatus,
  RAIL_RESULT_CODES,
  type ClassifiedAnswer,
  type UnsuccessfulAnswer,
} from './classifyAnswer.js'
import { redactFields, type Redact } from './fields/redactFields.js'
import type { LoadedRail } from './loadRails.js'
import { isNotSentError } from './NotSentError.js'
import type { RailContext, RailRequest } from './types.js'
import {
  TimedWork,
  withDeadline,
  type DeadlineResult,
  type Settled,
  type StopSignal,
  type WorkContext,
} from './withDeadline.js'

/**
 * Result of a call.
 *
 * | kind | certain | outcome |
 * | --- | --- | --- |
 * | `success` | paid, under `reference` | DISPATCHED |
 * | `terminal` | not paid, and never will be | FAILED |
 * | `retryable` | not paid by this call | RETRYABLE |
 * | `notSent` | nothing reached the rail | RETRYABLE; the fault is the rail's, not the payment's |
 * | `unknown` | nothing | the rail's `onUnknown` decides |
 */
export type RailResult = ClassifiedAnswer<'terminal' | 'retryable' | 'unknown' | 'notSent'> & Timed

/** Result of an inquiry. `absent`: the rail has never seen the reference. */
export type StatusResult = ClassifiedAnswer<'terminal' | 'absent' | 'unknown'> & Timed

interface Timed {
  readonly latencyMs: number
}

export interface CallOptions {
  /** Signal that ends the wait before the rail's timeout, for example at the end of the lease or at a shutdown. */
  readonly signal?: StopSignal
  /** Clock that measures the latency. @default systemClock */
  readonly clock?: Clock
}

export interface DispatchOptions extends CallOptions {
  /** Returns the context for the adapter, such as one with more members. @default the context itself */
  readonly contextOf?: (context: RailContext) => RailContext
  /**
   * Called with a certain result that arrives after the call was stopped: an answer with a known outcome, or a
   * `NotSentError`. Such a result is only evidence, because the call has already ended as unknown. Must not throw,
   * because no caller is left to catch the error.
   */
  readonly onLateAnswer?: (result: RailResult) => void
}

/** Sends a payment. Returns a result by the rail's timeout, even if the adapter hangs. Never throws. */
export function callRail(rail: LoadedRail, request: RailRequest, options: DispatchOptions = {}): Promise<RailResult> {
  const call = new DispatchCall(rail, request, options)
  const { signal } = options
  return signal?.aborted === true ? Promise.resolve(call.notSent()) : call.within(rail.timeoutMs, signal)
}

class DispatchCall extends TimedWork<unknown, RailResult> {
  readonly #rail: LoadedRail
  readonly #request: RailRequest
  readonly #options: DispatchOptions
  readonly #startedMs: number
  /**
   * Removes the payload's secrets from error texts. Created before the call, because an adapter may change the payload.
   */
  readonly #redact: Redact

  constructor(rail: LoadedRail, request: RailRequest, options: DispatchOptions) {
    super()
    this.#rail = rail
    this.#request = request
    this.#options = options
    this.#startedMs = (options.clock ?? systemClock).monotonicMs()
    this.#redact = redactFields(request.payload, rail.fields)
  }

  notSent(): RailResult {
    return this.#timed({ kind: 'notSent', code: RAIL_RESULT_CODES.aborted })
  }

  protected override work(context: WorkContext): unknown {
    const { contextOf } = this.#options
    return this.#rail.dispatch(this.#request, contextOf === undefined ? context : contextOf(context))
  }

  protected override conclude(call: DeadlineResult<unknown>): RailResult {
    if (call.stoppedBy === undefined) return this.#classify(call.settled)
    if (call.settled === undefined) {
      void call.end.then((settled) => this.#reportLate(this.#classify(settled)))
    } else {
      const result = this.#classify(call.settled)
      // Ignores an unknown result after an abort: the abort itself causes errors in the adapter.
      if (result.kind !== 'unknown') return result
    }
    return this.#timed(stoppedResult(call.stoppedBy, this.#rail))
  }

  #classify(settled: Settled<unknown>): RailResult {
    return this.#timed(classifyDispatch(this.#rail, settled, this.#redact))
  }

  #reportLate(result: RailResult): void {
    if (result.kind !== 'unknown') this.#options.onLateAnswer?.(result)
  }

  #timed<Answer extends object>(answer: Answer): Answer & Timed {
    return timed(answer, this.#options.clock ?? systemClock, this.#startedMs)
  }
}

/** Asks the rail for the outcome of a reference. Never throws: an error or a timeout is `unknown`. */
export async function inquireRail(
  rail: LoadedRail,
  request: RailRequest,
  { signal, clock = systemClock }: CallOptions = {},
): Promise<StatusResult> {
  const startedMs = clock.monotonicMs()
  const redact = redactFields(request.payload, rail.fields)
  const { queryStatus } = rail
  if (queryStatus === undefined) return timed({ kind: 'unknown', code: RAIL_RESULT_CODES.notAskable }, clock, startedMs)
  const call = await withDeadline((context) => queryStatus(request, context), {
    timeoutMs: rail.timeoutMs,
    signal,
  })
  if (call.settled?.how === 'answered') return timed(classifyStatus(rail, call.settled.value, redact), clock, startedMs)
  const classified =
    call.stoppedBy === undefined ? classifyThrown(call.settled.error, redact) : stoppedResult(call.stoppedBy, rail)
  return timed(classified, clock, startedMs)
}

function classifyDispatch(
  rail: LoadedRail,
  settled: Settled<unknown>,
  redact: Redact,
): ClassifiedAnswer<'terminal' | 'retryable' | 'unknown' | 'notSent'> {
  if (settled.how === 'answered') return classifyAnswer(rail, settled.value, redact)
  const classified = classifyThrown(settled.error, redact)
  return isNotSentError(settled.error)
    ? { ...classified, kind: 'notSent', code: RAIL_RESULT_CODES.notSent }
    : classified
}

function classifyThrown(error: unknown, redact: Redact): UnsuccessfulAnswer<'unknown'> {
  return { kind: 'unknown', code: RAIL_RESULT_CODES.threw, message: redact(describeThrown(error)) }
}

function stoppedResult(stoppedBy: 'timeout' | 'aborted', rail: LoadedRail): UnsuccessfulAnswer<'unknown'> {
  return stoppedBy === 'timeout'
    ? { kind: 'unknown', code: RAIL_RESULT_CODES.timeout, message: `no answer within ${rail.timeoutMs} ms` }
    : { kind: 'unknown', code: RAIL_RESULT_CODES.aborted, message: 'the call was aborted before the rail answered' }
}

/** Adds the duration to an answer. Changes the object. */
function timed<Answer extends object>(answer: Answer, clock: Clock, startedMs: number): Answer & Timed {
  return Object.assign(answer, { latencyMs: clock.monotonicMs() - startedMs })
}

/**
 * Describes a thrown value in one line: its code or name, its message, and those of its cause. Never includes a stack
 * or another property, because errors of HTTP clients hold the whole request.
 */
function describeThrown(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return typeof thrown === 'string' ? thrown : `threw ${typeof thrown}`
    const own = describeError(thrown)
    return thrown.cause instanceof Error ? `${own} (${describeError(thrown.cause)})` : own
  } catch {
    // The getter or the proxy of the thrown value threw as well.
    return 'threw an unreadable value'
  }
}

function describeError(error: Error): string {
  const code: unknown = Reflect.get(error, 'code')
  const label = typeof code === 'string' && code !== '' ? code : error.name
  return `${label}: ${error.message}`
}
