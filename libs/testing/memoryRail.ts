import { InvalidArgumentError, type JsonObject } from '../core/index.js'
import {
  NotSentError,
  type DefaultPayload,
  type Rail,
  type RailAnswer,
  type RailContext,
  type RailDeclaration,
  type RailRequest,
} from '../rails/index.js'

/**
 * Result of the next call.
 *
 * - an answer: the rail returns it, and pays on success.
 * - `lost`: the rail pays, and its answer is lost.
 * - `unreachable`: nothing is sent (`NotSentError`).
 * - `silent`: the rail neither pays nor answers before its timeout.
 */
export type ScriptedAnswer = RailAnswer | 'lost' | 'unreachable' | 'silent'

export type MemoryRailOptions<Type extends string = string, Payload extends object = JsonObject> = Pick<
  RailDeclaration<Type, Payload>,
  'type' | 'onUnknown' | 'money' | 'destination' | 'timeoutMs' | 'settleMs' | 'concurrency' | 'codes' | 'payload'
>

export interface MemoryPayment<Payload extends object = JsonObject> {
  /** Rail reference: `memory-1`, `memory-2` …, unless the script sets one. */
  readonly reference: string
  readonly payload: Payload
}

export type MemoryRail<Type extends string = string, Payload extends object = JsonObject> = Rail<Type, Payload> &
  MemoryRecords<Payload>

interface MemoryRecords<Payload extends object> {
  /** Payments by Symphony's reference. A payment that was sent several times occurs once. */
  readonly paid: ReadonlyMap<string, MemoryPayment<Payload>>
  /** Calls of `dispatch`, in order. */
  readonly calls: readonly RailRequest<Payload>[]
  /** Sets the results of the next calls, in order. All later calls succeed. */
  next(...answers: readonly ScriptedAnswer[]): void
}

const SPECIAL = new Set<unknown>(['lost', 'unreachable', 'silent'])

/**
 * Creates a rail in memory. It is idempotent under Symphony's reference and answers inquiries, so that it can replace a
 * rail of any policy. Set `onUnknown` as in the real rail.
 */
export function memoryRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(options: MemoryRailOptions<Type, Payload> & { readonly money?: Money }): MemoryRail<Type, Payload> {
  const paid = new Map<string, MemoryPayment<Payload>>()
  const calls: RailRequest<Payload>[] = []
  const script: ScriptedAnswer[] = []

  const pay = (request: RailRequest<Payload>, reference = `memory-${paid.size + 1}`): MemoryPayment<Payload> => {
    const payment = paid.get(request.reference) ?? { reference, payload: request.payload }
    paid.set(request.reference, payment)
    return payment
  }

  const rail: MemoryRail<Type, Payload> = {
    ...options,
    paid,
    calls,
    next: (...answers) => {
      for (const [index, answer] of answers.entries()) requireAnswer(`answers[${index}]`, answer)
      script.push(...answers)
    },
    dispatch: async (request, { signal }) => {
      calls.push(request)
      const answer = script.shift()
      if (answer === undefined) return { outcome: 'success', reference: pay(request).reference }
      if (answer === 'unreachable') throw new NotSentError('the memory rail was scripted to be unreachable')
      if (answer === 'silent') return silence(signal)
      if (answer === 'lost') {
        pay(request)
        throw new Error('the memory rail paid and was scripted to lose the answer')
      }
      if (answer.outcome === 'success') return { ...answer, reference: pay(request, answer.reference).reference }
      return answer
    },
    queryStatus: ({ reference }) => {
      const payment = paid.get(reference)
      return payment === undefined ? { outcome: 'absent' } : { outcome: 'success', reference: payment.reference }
    },
  }
  // Makes these members not enumerable, because the check of a rail declaration refuses unknown fields.
  for (const name of ['paid', 'calls', 'next']) Object.defineProperty(rail, name, { enumerable: false })
  return rail
}

/** Returns a promise that rejects when the signal aborts. */
function silence(signal: RailContext['signal']): Promise<never> {
  return new Promise((_, reject) => {
    const end = () => reject(new Error('the memory rail was scripted to be silent'))
    if (signal.aborted) end()
    else signal.addEventListener('abort', end, { once: true })
  })
}

function requireAnswer(argument: string, answer: unknown): void {
  const isAnswer = typeof answer === 'object' && answer !== null && 'outcome' in answer
  if (!isAnswer && !SPECIAL.has(answer)) {
    throw new InvalidArgumentError(argument, 'expected an answer of a rail, or lost, unreachable or silent')
  }
}
