// Ordered claims with a million participants of two items each. In the first run every tenth head is leased, held or
// scheduled. In the second run every tenth stream is halted after a failed head.
import { fillQueue } from '../../fill.mjs'
import { claimCost } from '../claimCost.mjs'

const BATCH = 50

/** Conditions of heads that cannot be claimed: those of participants 10, 20, 30 …, in turn leased, held, due later. */
const leased = 'i.sequence_id = 1 AND i.n % 30 = 10'
const held = 'i.sequence_id = 1 AND i.n % 30 = 20'
const future = 'i.sequence_id = 1 AND i.n % 30 = 0'
const SUCCESSORS_WAIT = { ordered: 'true', blocked: 'i.sequence_id > 1' }
const HEADS_BUSY = {
  ...SUCCESSORS_WAIT,
  claimed_by: `CASE WHEN ${leased} THEN 'another' END`,
  lease_token: `CASE WHEN ${leased} THEN gen_random_uuid() END`,
  claimed_at: `CASE WHEN ${leased} THEN now() END`,
  lease_expires_at: `CASE WHEN ${leased} THEN now() + interval '1 day' END`,
  hold_reason: `CASE WHEN ${held} THEN 'to be looked at' END`,
  held_by: `CASE WHEN ${held} THEN 'ann' END`,
  held_at: `CASE WHEN ${held} THEN now() END`,
  next_attempt_at: `CASE WHEN ${future} THEN now() + interval '1 day' ELSE i.created_at END`,
}
const STREAMS_HALTED = { ...SUCCESSORS_WAIT, blocked: 'i.sequence_id > 1 OR i.n % 10 = 0' }

export async function ordered({ fixture, sizes, calls, print }) {
  const participants = sizes([1_000_000], [500]).at(-1)
  const measure = (columns, prepare) =>
    fixture.withDatabase(async (database) => {
      const [filler, executor] = [await database.connect(), await database.connect('symphony_executor')]
      await fillQueue(filler, { count: 2 * participants, prefix: 's', rail: 'ordered', perParticipant: 2, columns })
      // Adds unordered items as a baseline.
      await fillQueue(filler, { count: 1_000, prefix: 'u', rail: 'unordered' })
      await prepare(filler)
      return {
        cost: await claimCost(executor, { batch: BATCH, rails: ['ordered'], calls }),
        unordered: await claimCost(executor, { batch: BATCH, rails: ['unordered'], calls }),
      }
    })
  const busy = await measure(HEADS_BUSY, async () => {})
  print(`a tenth of the heads leased, held or later: ${describe(busy)}`)
  const halted = await measure(STREAMS_HALTED, (filler) =>
    filler.query(
      `INSERT INTO outbox_pauses (kind, name, reason, paused_by, paused_at)
       SELECT 'stream', 's-p-' || n, 'ORDERED_HEAD_FAILED', 'symphony', now() FROM generate_series(10, $1::int, 10) n`,
      [participants],
    ),
  )
  print(`a tenth of the streams halted: ${describe(halted)}`)
  const count = participants.toLocaleString('en')
  return {
    figures: [
      row(
        `ordered claim of ${BATCH} with ${count} participants, 10 % of the heads leased, held or later: buffers ÷ those without order`,
        busy,
      ),
      row(`the same with 10 % of the streams halted`, halted),
    ],
  }
}

function row(figure, measured) {
  const ratio = measured.cost.buffers / measured.unordered.buffers
  return { figure, bound: '≤ 1.2', measured: `${ratio.toFixed(2)} (${describe(measured)})`, ok: ratio <= 1.2 }
}

function describe({ cost, unordered }) {
  return `${cost.buffers} in ${cost.ms.toFixed(1)} ms ÷ ${unordered.buffers}`
}
