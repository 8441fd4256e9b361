import { between, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import type { JsonObject } from '../../libs/core/index.js'
import type { OutboxInstruction } from '../../libs/outbox/index.js'
import type { SimulatedBehaviour } from '../../libs/rails/index.js'

/** Topic that receives the outcomes of every order. */
export const ORDERS_TOPIC = 'orders'

/** Intervention while the payment of an order may be on its way. */
export type Intervention =
  /** The application cancels the payment in its own transaction, which commits or is rolled back. */
  | 'cancel'
  | 'cancel, rolled back'
  /** An operator cancels or holds the payment. */
  | 'operator cancels'
  | 'operator holds'

/** Order of a customer, whose payment reports its outcomes to `ORDERS_TOPIC`. */
export interface Order {
  readonly payment: OutboxInstruction
  readonly intervention: Intervention | undefined
  /** Delay of the intervention after the enqueue. */
  readonly afterMs: number
}

interface Kind {
  readonly perThousand: number
  readonly rails: readonly [string, ...string[]]
  readonly simulate?: readonly SimulatedBehaviour[]
  /** Whether the rail answers the first call only after its timeout. */
  readonly late?: boolean
}

const ANY = ['inquire', 'resend', 'hold'] as const

/** Behaviour of the rail for a share of the payments. All other payments succeed at the first call. */
const KINDS: readonly Kind[] = [
  { perThousand: 60, rails: ANY, simulate: ['terminal'] },
  { perThousand: 10, rails: ['resend'], simulate: ['retryable', 'terminal'] },
  { perThousand: 20, rails: ANY, simulate: ['retryable', 'success'] },
  { perThousand: 10, rails: ANY, simulate: ['refused', 'success'] },
  { perThousand: 10, rails: ['inquire', 'resend'], simulate: ['slow'] },
  { perThousand: 10, rails: ['inquire'], simulate: ['timeoutAfterPaying', 'success'] },
  { perThousand: 10, rails: ['inquire', 'resend'], simulate: ['garbage', 'success'] },
  { perThousand: 5, rails: ['resend'], simulate: ['duplicate'] },
  // The payments of these two lines are held with an unknown outcome: the first is paid without an answer, the second
  // unpaid.
  { perThousand: 15, rails: ['hold'], simulate: ['timeoutAfterPaying'] },
  { perThousand: 15, rails: ['hold'], simulate: ['garbage'] },
  { perThousand: 20, rails: ['hold'], simulate: ['slow', 'success'] },
  { perThousand: 20, rails: ['hold', 'resend'], late: true },
]

const INTERVENTIONS: readonly { readonly perThousand: number; readonly intervention: Intervention }[] = [
  { perThousand: 40, intervention: 'cancel' },
  { perThousand: 15, intervention: 'cancel, rolled back' },
  { perThousand: 20, intervention: 'operator cancels' },
  { perThousand: 20, intervention: 'operator holds' },
]

/** Builds an order. The same number and seed give the same order, except for the time of a postponed one. */
export function buildOrder(number: number, random: Random): Order {
  const instructionId = `order-${String(number).padStart(8, '0')}`
  const kind = choose(KINDS, random)
  const isPostponed = random() < 0.03
  return {
    payment: {
      instructionId,
      idempotencyKey: instructionId,
      participantId: `customer-${between(random, 1, 200)}`,
      railType: pick(kind?.rails ?? ANY, random),
      outcomeTopic: ORDERS_TOPIC,
      payload: {
        amount: `${between(random, 1, 9_999)}.50`,
        currency: 'EUR',
        destination: 'DE89370400440532013000',
        ...(kind === undefined ? {} : scriptOf(kind, random)),
      },
      ...(isPostponed ? { notBefore: new Date(Date.now() + between(random, 1_000, 5_000)) } : {}),
    },
    intervention: choose(INTERVENTIONS, random)?.intervention,
    afterMs: between(random, 0, 1_500),
  }
}

function scriptOf({ simulate, late }: Kind, random: Random): JsonObject {
  return {
    ...(simulate === undefined ? {} : { simulate: [...simulate] }),
    ...(late === true ? { late } : {}),
    // Some refused payments are redriven by two people. The rail then pays the redrive, or refuses again.
    ...(simulate?.at(-1) === 'terminal' && random() < 0.6 ? { redriven: random() < 0.7 ? 'success' : 'terminal' } : {}),
  }
}

function choose<K extends { readonly perThousand: number }>(kinds: readonly K[], random: Random): K | undefined {
  let place = random() * 1_000
  return kinds.find(({ perThousand }) => (place -= perThousand) < 0)
}

function pick<T>([first, ...others]: readonly [T, ...T[]], random: Random): T {
  return [first, ...others][between(random, 0, others.length)] ?? first
}

/**
 * Rails of the orders, and the application's handler of `ORDERS_TOPIC`. The rails are simulated, with two
 * additions. If `payload.late` is true, the answer to the first attempt is returned 1.5 s late, after the timeout. For
 * a redrive, `payload.redriven` replaces `payload.simulate`.
 *
 * With HANDLER=outside the handler writes on another connection than `tx`. In the first attempt of a message, the
 * handler fails after its writes in two cases: for the first outcome of every KILL_EVERY-th order it kills its process,
 * and for every outcome of every 50th order it throws.
 */
export const ORDER_RAILS = `[
  ...[
    { type: 'inquire', onUnknown: 'inquire', timeoutMs: 1000, slowMs: 300, settleMs: 1000 },
    { type: 'resend', onUnknown: 'resend', timeoutMs: 1000, slowMs: 300 },
    // A slow call is aborted before it pays, so its outcome is unknown although nothing was paid.
    { type: 'hold', onUnknown: 'hold', timeoutMs: 500, slowMs: 5000 },
  ].map((options) => {
    const rail = simulatedRail({ ...options, bookUrl, latencyMs: { min: 1, max: 5 } })
    const dispatch = async (request, context) => {
      const { late, redriven } = request.payload
      if (request.idempotencyKey.includes('~redrive~')) {
        return rail.dispatch({ ...request, payload: { ...request.payload, simulate: redriven } }, context)
      }
      if (late !== true || request.attempt > 1) return rail.dispatch(request, context)
      const answer = await rail.dispatch(request, { signal: AbortSignal.timeout(60000) })
      await new Promise((resolve) => setTimeout(resolve, 1500))
      return answer
    }
    return { ...rail, dispatch }
  }),
  ...(await (async () => {
    const { topicRails } = await import(process.env.OUTBOX_MODULE)
    const { openDatabase } = await import(process.env.DB_MODULE)
    const url = process.env.DATABASE_URL
    const database = process.env.HANDLER === 'outside' ? openDatabase({ url }) : undefined
    const outside = database?.as(new URL(url).username)
    const handle = async ({ payload, attempt }, { tx }) => {
      const { instructionId, outcomeNo, outboxId, state } = payload
      const isFinal = state === 'DISPATCHED' || state === 'FAILED'
      const db = outside ?? tx
      if (isFinal) {
        await db.query('UPDATE shop.orders_outcomes SET is_final = false WHERE instruction_id = $1 AND is_final AND outcome_no < $2',
          [instructionId, outcomeNo])
      }
      await db.query('INSERT INTO shop.orders_outcomes (instruction_id, outcome_no, outbox_id, state, is_final) VALUES ($1, $2, $3, $4, $5)',
        [instructionId, outcomeNo, outboxId, state, isFinal])
      if (isFinal) {
        await db.query('UPDATE shop.orders SET state = $2, outcome_no = $3 WHERE instruction_id = $1 AND outcome_no < $3',
          [instructionId, state === 'DISPATCHED' ? 'BOOKED' : 'RELEASED', outcomeNo])
      }
      const number = Number(instructionId.slice(-8))
      if (attempt > 1) return
      if (outcomeNo === 1 && number % Number(process.env.KILL_EVERY) === 0) process.kill(process.pid, 'SIGKILL')
      if (number % 50 === 7) throw new Error('the handler fails after its writes')
      await new Promise((resolve) => setTimeout(resolve, number % 20))
    }
    const rails = topicRails({ ${ORDERS_TOPIC}: { handle, timeoutMs: 1500 } })
    return rails.map((rail) => ({ ...rail, close: async () => database?.close() }))
  })()),
]`
