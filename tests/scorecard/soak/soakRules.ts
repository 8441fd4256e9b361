import type { PlantedRule } from '../plantedRules.js'

export interface SoakCounts {
  /** Payments that the application enqueued, numbered from 1. */
  readonly payments: number
  /** Inbox messages, numbered from 1. */
  readonly messages: number
}

/** Returns the rules about the rows that a drained soak leaves. */
export function soakRules({ payments, messages }: SoakCounts): readonly PlantedRule[] {
  return [
    {
      id: 'ended once',
      violated: 'payments are missing or have not exactly one terminal outcome',
      find: `SELECT w.instruction_id FROM
          (SELECT 'payment-' || lpad(n::text, 8, '0') AS instruction_id FROM generate_series(1, ${payments}) n) w
        LEFT JOIN payment_outbox_identities i ON i.instruction_id = w.instruction_id AND NOT i.is_message
        LEFT JOIN payment_outbox_attempts a ON a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
        GROUP BY 1 HAVING count(a.attempt_id) <> 1`,
      plant: `DELETE FROM payment_outbox_attempts WHERE attempt_id = (SELECT attempt_id FROM payment_outbox_attempts
        WHERE instruction_id = 'payment-00000001' AND state IN ('DISPATCHED', 'FAILED') LIMIT 1)`,
    },
    {
      id: 'outcome once',
      violated: 'orders have another number of final outcomes than one, or another outcome than the ledger',
      find: `SELECT o.instruction_id FROM shop.orders o
        LEFT JOIN shop.orders_outcomes r ON r.instruction_id = o.instruction_id AND r.is_final
        LEFT JOIN payment_outbox_attempts a ON a.outbox_id = r.outbox_id AND a.state::text = r.state
        GROUP BY o.instruction_id, o.state
        HAVING count(*) <> 1 OR count(a.attempt_id) <> 1
          OR o.state <> CASE min(r.state) WHEN 'DISPATCHED' THEN 'BOOKED' ELSE 'RELEASED' END`,
      plant: `INSERT INTO shop.orders_outcomes SELECT * FROM shop.orders_outcomes WHERE is_final LIMIT 1`,
    },
    {
      id: 'inbox once',
      violated: 'inbox messages have not exactly one effect, or are not done',
      find: `SELECT n::text FROM generate_series(1, ${messages}) n LEFT JOIN shop.effects e ON e.message_id = n::text
        GROUP BY n HAVING count(e.message_id) <> 1
        UNION SELECT message_id FROM inbox_messages WHERE state <> 'done' OR message_id::integer > ${messages}`,
      plant: `INSERT INTO shop.effects SELECT * FROM shop.effects LIMIT 1`,
    },
    {
      id: 'occurrence once',
      violated: 'jobs have missing or repeated runs, messages or effects',
      find: `SELECT j.job_name FROM scheduler_jobs j
        LEFT JOIN scheduler_job_runs r USING (job_name)
        LEFT JOIN (SELECT instruction_id, count(*) AS items FROM payment_outbox_identities GROUP BY 1) i
          ON i.instruction_id = r.run_id::text
        LEFT JOIN (SELECT run_id, count(*) AS effects FROM shop.job_effects GROUP BY 1) e ON e.run_id = r.run_id::text
        GROUP BY j.job_name, j.next_due_at
        HAVING count(r.run_id) IS DISTINCT FROM extract(epoch FROM j.next_due_at - min(r.scheduled_for))
          OR NOT bool_and(coalesce(i.items, 0) = 1 AND coalesce(e.effects, 0) = 1)`,
      plant: `INSERT INTO shop.job_effects SELECT * FROM shop.job_effects LIMIT 1`,
    },
  ]
}
