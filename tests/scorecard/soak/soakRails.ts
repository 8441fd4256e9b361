import { ORDERS_TOPIC } from '../orders.js'
import { USUAL_RAILS } from '../payments.js'

/** Topic of the messages that jobs create. */
export const JOBS_TOPIC = 'soak-jobs'

/** Returns the rail of the payments on a statement. */
export function bankRail(statement: number): string {
  return `bank-${statement}`
}

/** Tables of the handlers. They have no unique index, so that a second effect leaves a second row. */
export const EFFECT_TABLES = `
  CREATE TABLE shop.effects (source text, message_id text, process integer);
  CREATE TABLE shop.job_effects (run_id text)`

/**
 * Returns the rails of the soak: the usual ones, one per statement, and handlers that write through `tx` for outcomes
 * of orders and messages of jobs.
 */
export function soakRails(statements: number): string {
  return `[
  ...${USUAL_RAILS},
  ...Array.from({ length: ${statements} }, (_, index) =>
    simulatedRail({ type: 'bank-' + (index + 1), onUnknown: 'resend', bookUrl, latencyMs: { min: 1, max: 5 }, timeoutMs: 1000 })),
  ...(await import(process.env.OUTBOX_MODULE)).topicRails({
    '${ORDERS_TOPIC}': async ({ payload: { instructionId, outcomeNo, outboxId, state } }, { tx }) => {
      const isFinal = state === 'DISPATCHED' || state === 'FAILED'
      await tx.query('INSERT INTO shop.orders_outcomes (instruction_id, outcome_no, outbox_id, state, is_final) VALUES ($1, $2, $3, $4, $5)',
        [instructionId, outcomeNo, outboxId, state, isFinal])
      if (!isFinal) return
      await tx.query('UPDATE shop.orders SET state = $2, outcome_no = $3 WHERE instruction_id = $1',
        [instructionId, state === 'DISPATCHED' ? 'BOOKED' : 'RELEASED', outcomeNo])
    },
    '${JOBS_TOPIC}': async ({ messageId }, { tx }) => {
      await tx.query('INSERT INTO shop.job_effects (run_id) VALUES ($1)', [messageId])
    },
  }),
]`
}
