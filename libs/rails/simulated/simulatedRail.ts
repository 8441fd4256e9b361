import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { boundedInteger, InvalidArgumentError } from '../../core/index.js'
import { NotSentError } from '../NotSentError.js'
import type { Rail, RailAnswer, RailCodes, RailContext, RailPayment, RailRequest, RailStatus } from '../types.js'
import {
  behaviourChooser,
  chance,
  type BehaviourWeights,
  type ChooseBehaviour,
  type SimulatedBehaviour,
} from './behaviours.js'
import { FileRailBook } from './FileRailBook.js'
import type { BookPage, BookReceipt, RailBook } from './RailBook.js'
import { RemoteRailBook } from './RemoteRailBook.js'

/** Declaration of a rail that simulates `dispatch`, `queryStatus` and `listPayments`. */
export interface SimulatedRailOptions extends Omit<
  Rail,
  'type' | 'dispatch' | 'queryStatus' | 'listPayments' | 'codes' | 'close'
> {
  /** Name of the rail. @default 'simulated' */
  readonly type?: string
  /** File of the rail book, for the processes of one machine. Either this or `bookUrl`. */
  readonly bookFile?: string
  /** URL of a rail book in its own process (`startRailBook`). */
  readonly bookUrl?: string
  /** Behaviour for payments without a `simulate` field. @default 'success' */
  readonly behaviour?: SimulatedBehaviour | BehaviourWeights
  /** Seed of the choice among weights. The same seed repeats a run. @default 'symphony' */
  readonly seed?: string
  /**
   * Whether to pay a reference at most once. Should be true if `onUnknown` is `resend`. @default true only if onUnknown
   * is 'resend'
   */
  readonly idempotent?: boolean
  /** Duration of an answer, fixed or between two bounds. @default 0 */
  readonly latencyMs?: number | { readonly min: number; readonly max: number }
  /** Duration of a `slow` answer. @default 2000 */
  readonly slowMs?: number
}

export const SIMULATED_CODES = Object.freeze({
  SIM_PAID: 'success',
  SIM_REJECTED: 'terminal',
  SIM_SCRIPT_UNKNOWN: 'terminal',
  SIM_BUSY: 'retryable',
  SIM_TOO_LATE: 'retryable',
}) satisfies RailCodes

/**
 * Creates a rail that fails in every way a real one does, on demand or at random. Tests reconcile the ledger with its
 * durable rail book (`readBook`), which is outside the database.
 */
export function simulatedRail(options: SimulatedRailOptions): Rail {
  const {
    type = 'simulated',
    bookFile,
    bookUrl,
    behaviour = 'success',
    seed = 'symphony',
    idempotent = options.onUnknown === 'resend',
    latencyMs = 0,
    slowMs = 2_000,
    ...declaration
  } = options
  const rail = new SimulatedRail(bookOpener(bookFile, bookUrl), {
    choose: behaviourChooser(behaviour, seed),
    latencyOf: latencyChooser(latencyMs, seed),
    slowMs: boundedInteger('slowMs', slowMs, WAIT_MS),
    idempotent,
  })
  const { onUnknown } = options
  const declared = {
    ...declaration,
    type,
    codes: SIMULATED_CODES,
    dispatch: (request: RailRequest, context: RailContext) => rail.dispatch(request, context),
    listPayments: (period: Period, context: RailContext) => rail.listPayments(period, context),
    close: () => rail.close(),
  }
  // A rail with `hold` has no `queryStatus`.
  if (onUnknown === 'hold') return { ...declared, onUnknown }
  return { ...declared, onUnknown, queryStatus: (request, context) => rail.queryStatus(request, context) }
}

interface Period {
  readonly from: Date
  readonly to: Date
}

interface Simulation {
  readonly choose: ChooseBehaviour
  readonly latencyOf: (request: RailRequest) => number
  readonly slowMs: number
  readonly idempotent: boolean
}

class SimulatedRail {
  readonly #openBook: () => RailBook
  readonly #simulation: Simulation
  #opened: RailBook | undefined

  constructor(openBook: () => RailBook, simulation: Simulation) {
    this.#openBook = openBook
    this.#simulation = simulation
  }

  async dispatch(request: RailRequest, { signal }: RailContext): Promise<RailAnswer> {
    const { choose, latencyOf, slowMs } = this.#simulation
    const behaviour = choose(request)
    if (behaviour === 'refused') throw new NotSentError('simulated: connection refused')
    await sleep(behaviour === 'slow' ? slowMs : latencyOf(request), undefined, { signal })
    switch (behaviour) {
      case undefined:
        return { outcome: 'terminal', code: 'SIM_SCRIPT_UNKNOWN', message: 'payload.simulate names no behaviour' }
      case 'terminal':
        return { outcome: 'terminal', code: 'SIM_REJECTED', message: 'simulated: rejected' }
      case 'retryable':
        return { outcome: 'retryable', code: 'SIM_BUSY', message: 'simulated: busy' }
      case 'success':
      case 'slow':
        return answerOf(await this.#pay(request, signal))
      case 'duplicate':
        await this.#pay(request, signal)
        return answerOf(await this.#pay(request, signal))
      case 'garbage':
        await this.#pay(request, signal)
        return GARBAGE
      case 'timeoutAfterPaying':
        await this.#pay(request, signal)
        return silence(signal)
    }
  }

  async queryStatus({ reference }: RailRequest, { signal }: RailContext): Promise<RailStatus> {
    const railReference = await this.#book.find(reference, signal)
    return railReference === undefined
      ? { outcome: 'absent' }
      : { outcome: 'success', reference: railReference, code: 'SIM_PAID' }
  }

  async *listPayments({ from, to }: Period, { signal }: RailContext): AsyncGenerator<RailPayment> {
    let position: number | null = 0
    while (position !== null) {
      signal.throwIfAborted()
      const page: BookPage = await this.#book.page(position, signal)
      for (const { reference, railReference, amount, currency, at } of page.entries) {
        const time = new Date(at)
        if (time < from || time >= to) continue
        yield { reference, bankReference: railReference, amount, currency, bookedOn: at.slice(0, 10) }
      }
      position = page.next
    }
  }

  async close(): Promise<void> {
    const book = this.#opened
    this.#opened = undefined
    await book?.close()
  }

  get #book(): RailBook {
    this.#opened ??= this.#openBook()
    return this.#opened
  }

  #pay({ reference, payload, notAfter }: RailRequest, signal: AbortSignal): Promise<BookReceipt> {
    const { amount, currency } = payload
    return this.#book.pay(
      {
        reference,
        amount: typeof amount === 'string' ? amount : null,
        currency: typeof currency === 'string' ? currency : null,
        once: this.#simulation.idempotent,
        notAfter,
      },
      signal,
    )
  }
}

function answerOf(receipt: BookReceipt): RailAnswer {
  return receipt.paid
    ? { outcome: 'success', reference: receipt.railReference, code: 'SIM_PAID' }
    : { outcome: 'retryable', code: 'SIM_TOO_LATE', message: 'the request arrived after its not-after time' }
}

/** Answer of a proxy instead of the rail. Its type is wrong on purpose. */
const GARBAGE: RailAnswer = JSON.parse('"<html><h1>502 Bad Gateway</h1></html>"')

async function silence(signal: AbortSignal): Promise<never> {
  if (!signal.aborted) await once(signal, 'abort')
  throw signal.reason
}

const WAIT_MS = { min: 0, max: 3_600_000 }

function latencyChooser(
  latencyMs: number | { readonly min: number; readonly max: number },
  seed: string,
): (request: RailRequest) => number {
  const { min, max } = typeof latencyMs === 'number' ? { min: latencyMs, max: latencyMs } : latencyMs
  boundedInteger('latencyMs.min', min, WAIT_MS)
  boundedInteger('latencyMs.max', max, { min, max: WAIT_MS.max })
  return (request) => min + Math.floor(chance(seed, 'latency', request) * (max - min + 1))
}

/**
 * Returns a function that opens the book. A file is opened at the first payment, so an unused rail creates none. A
 * client is created at once.
 */
function bookOpener(bookFile: string | undefined, bookUrl: string | undefined): () => RailBook {
  if (bookFile !== undefined && bookUrl === undefined) return () => new FileRailBook(bookFile)
  if (bookUrl !== undefined && bookFile === undefined) {
    const book = new RemoteRailBook(bookUrl)
    return () => book
  }
  throw new InvalidArgumentError('bookFile', 'expected either bookFile or bookUrl')
}
