import type { Client } from 'pg'
import type { RailEffect } from '../../libs/rails/index.js'
import { ORDERS_TOPIC } from './orders.js'
import { checkRules, type CheckedRules, type PlantedRule } from './plantedRules.js'

/**
 * A temporary table and views with the facts of ledger and rail book that the rules query. `checkOutcomes` fills the
 * table `rail_book`.
 */
const FACTS = `
  CREATE TEMP TABLE rail_book (outbox_id uuid PRIMARY KEY, payments integer NOT NULL) ON COMMIT DROP;
  CREATE TEMP VIEW order_items AS
    SELECT i.outbox_id, i.instruction_id, i.sequence_id,
      row_number() OVER (PARTITION BY i.instruction_id ORDER BY i.sequence_id DESC) = 1 AS is_newest
    FROM payment_outbox_identities i WHERE NOT i.is_message;
  CREATE TEMP VIEW order_ends AS
    SELECT o.instruction_id, o.outbox_id, o.is_newest, a.state::text AS state, a.action, a.worker_id
    FROM order_items o JOIN payment_outbox_attempts a USING (outbox_id) WHERE a.state IN ('DISPATCHED', 'FAILED');
  CREATE TEMP VIEW order_facts AS
    SELECT e.instruction_id, e.outbox_id, e.state FROM order_ends e
    UNION ALL
    SELECT o.instruction_id, o.outbox_id, CASE v.event_type WHEN 'HOLD_PLACED' THEN 'HELD' ELSE 'RELEASED' END
    FROM order_items o JOIN payment_outbox_events v USING (outbox_id)
    WHERE v.event_type = 'HOLD_PLACED' OR (v.event_type = 'HOLD_RESOLVED' AND v.detail ->> 'decision' = 'RETRY');
  CREATE TEMP VIEW outcome_messages AS
    SELECT a.outbox_id AS message_id, a.payload ->> 'instructionId' AS instruction_id,
      (a.payload ->> 'outcomeNo')::integer AS outcome_no, (a.payload ->> 'outboxId')::uuid AS outbox_id,
      a.payload ->> 'state' AS state
    FROM payment_outbox_identities m JOIN payment_outbox_attempts a USING (outbox_id)
    WHERE m.is_message AND m.rail_type = '${ORDERS_TOPIC}' AND a.state = 'DISPATCHED'`

/** Rules about the outcomes of all orders. */
export const OUTCOME_RULES: readonly PlantedRule[] = [
  {
    id: 'ended',
    violated: 'orders have not ended, or have messages that were not handled',
    find: `SELECT o.instruction_id FROM shop.orders o
      WHERE NOT EXISTS (SELECT FROM order_ends e WHERE e.instruction_id = o.instruction_id AND e.is_newest)
      UNION SELECT p.instruction_id FROM payment_outbox_pending p`,
    plant: `DELETE FROM payment_outbox_attempts WHERE outbox_id = (SELECT outbox_id FROM order_ends WHERE is_newest LIMIT 1)`,
  },
  {
    id: 'one final row',
    violated: 'orders do not have exactly one final row',
    find: `SELECT o.instruction_id FROM shop.orders o LEFT JOIN shop.orders_outcomes r USING (instruction_id)
      GROUP BY 1 HAVING count(*) FILTER (WHERE r.is_final) <> 1`,
    plant: `UPDATE shop.orders_outcomes SET is_final = false
      WHERE instruction_id = (SELECT max(instruction_id) FROM shop.orders)`,
  },
  {
    id: 'final row equals ledger',
    violated: 'final rows differ from the last terminal attempt in the ledger',
    find: `SELECT r.instruction_id FROM shop.orders_outcomes r
      LEFT JOIN order_ends e ON e.instruction_id = r.instruction_id AND e.is_newest
      WHERE r.is_final AND (r.state, r.outbox_id) IS DISTINCT FROM (e.state, e.outbox_id)`,
    plant: `UPDATE shop.orders_outcomes SET state = CASE state WHEN 'FAILED' THEN 'DISPATCHED' ELSE 'FAILED' END
      WHERE is_final AND instruction_id = (SELECT max(instruction_id) FROM shop.orders)`,
  },
  {
    id: 'order equals ledger',
    violated: 'orders are booked or released against the ledger',
    find: `SELECT o.instruction_id FROM shop.orders o
      LEFT JOIN order_ends e ON e.instruction_id = o.instruction_id AND e.is_newest
      WHERE o.state IS DISTINCT FROM CASE e.state WHEN 'DISPATCHED' THEN 'BOOKED' WHEN 'FAILED' THEN 'RELEASED' END`,
    plant: `UPDATE shop.orders SET state = 'RESERVED' WHERE instruction_id = (SELECT max(instruction_id) FROM shop.orders)`,
  },
  {
    id: 'handled once',
    violated: 'outcomes were written twice',
    find: `SELECT r.instruction_id FROM shop.orders_outcomes r GROUP BY r.instruction_id, r.outcome_no HAVING count(*) > 1`,
    plant: `INSERT INTO shop.orders_outcomes SELECT * FROM shop.orders_outcomes LIMIT 1`,
  },
  {
    id: 'outcome numbers',
    violated: 'orders have outcome numbers with a gap',
    find: `SELECT r.instruction_id FROM shop.orders_outcomes r
      GROUP BY 1 HAVING min(r.outcome_no) <> 1 OR max(r.outcome_no) <> count(DISTINCT r.outcome_no)`,
    plant: `UPDATE shop.orders_outcomes SET outcome_no = outcome_no + 1
      WHERE instruction_id = (SELECT max(instruction_id) FROM shop.orders)`,
  },
  {
    id: 'a message per fact',
    violated: 'items have another number of messages than ends, holds and releases in the ledger',
    find: `SELECT instruction_id FROM
        (SELECT instruction_id, outbox_id, state, count(*) AS facts FROM order_facts GROUP BY 1, 2, 3) f
        FULL JOIN (SELECT instruction_id, outbox_id, state, count(*) AS messages FROM outcome_messages GROUP BY 1, 2, 3) m
        USING (instruction_id, outbox_id, state)
      WHERE f.facts IS DISTINCT FROM m.messages`,
    plant: `DELETE FROM payment_outbox_events WHERE event_id = (SELECT event_id FROM payment_outbox_events v
      JOIN order_items USING (outbox_id) WHERE v.event_type = 'HOLD_PLACED' LIMIT 1)`,
  },
  {
    id: 'a row per message',
    violated: 'messages and rows of the application differ',
    find: `SELECT COALESCE(m.instruction_id, r.instruction_id) FROM outcome_messages m
      FULL JOIN shop.orders_outcomes r ON (r.instruction_id, r.outcome_no, r.outbox_id, r.state)
        = (m.instruction_id, m.outcome_no, m.outbox_id, m.state)
      WHERE m.message_id IS NULL OR r.instruction_id IS NULL`,
    plant: `DELETE FROM shop.orders_outcomes WHERE ctid = (SELECT ctid FROM shop.orders_outcomes LIMIT 1)`,
  },
  {
    id: 'cancelled together',
    violated: 'orders are marked as cancelled without their payment, or the reverse',
    find: `SELECT o.instruction_id FROM shop.orders o WHERE o.is_cancelled IS DISTINCT FROM EXISTS (
      SELECT FROM order_ends e WHERE e.instruction_id = o.instruction_id AND e.action = 'cancelled' AND e.worker_id = $1)`,
    plant: `UPDATE shop.orders SET is_cancelled = false
      WHERE instruction_id = (SELECT max(instruction_id) FROM shop.orders WHERE is_cancelled)`,
  },
  {
    id: 'cancelled is unpaid',
    violated: 'cancelled payments are in the rail book',
    find: `SELECT e.instruction_id FROM order_ends e JOIN rail_book USING (outbox_id) WHERE e.action = 'cancelled'`,
    plant: `INSERT INTO rail_book SELECT outbox_id, 1 FROM order_ends WHERE action = 'cancelled' LIMIT 1`,
  },
  {
    id: 'paid once',
    violated: 'orders were paid twice, an item and its redrive counted together',
    find: `SELECT o.instruction_id FROM order_items o JOIN rail_book b USING (outbox_id) GROUP BY 1 HAVING sum(b.payments) > 1`,
    plant: `INSERT INTO rail_book SELECT outbox_id, 1 FROM order_items
      WHERE instruction_id = (SELECT max(instruction_id) FROM order_items WHERE NOT is_newest) ON CONFLICT DO NOTHING`,
  },
  {
    id: 'paid equals dispatched',
    violated: 'payments are in the rail book or DISPATCHED, and not both',
    find: `SELECT COALESCE(e.instruction_id, b.outbox_id::text) FROM (SELECT * FROM order_ends WHERE state = 'DISPATCHED') e
      FULL JOIN rail_book b USING (outbox_id) WHERE e.outbox_id IS NULL OR b.outbox_id IS NULL`,
    plant: `DELETE FROM rail_book WHERE outbox_id = (SELECT outbox_id FROM rail_book LIMIT 1)`,
  },
]

/**
 * Compares the tables of the application with ledger and rail book, then plants one violation per rule. Works in a
 * transaction of a superuser, which is rolled back.
 */
export async function checkOutcomes(
  client: Client,
  { shop, book }: { readonly shop: string; readonly book: ReadonlyMap<string, RailEffect> },
): Promise<CheckedRules> {
  await client.query('BEGIN')
  try {
    await client.query(FACTS)
    const effects = [...book.values()]
    await client.query('INSERT INTO rail_book SELECT * FROM unnest($1::uuid[], $2::integer[])', [
      effects.map(({ reference }) => reference),
      effects.map(({ count }) => count),
    ])
    await client.query('ANALYZE rail_book')
    return await checkRules(client, OUTCOME_RULES, shop)
  } finally {
    await client.query('ROLLBACK')
  }
}
