import type { Queryable } from '../../libs/db/index.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import type { OutboxModel } from './outboxModel.js'

/**
 * Returns violations of ledger invariants, independent of the model: content hashes match, numbers have no gaps, and an
 * item is either pending or has one terminal attempt, its last. The ledger only grows, so one check per sequence is
 * enough.
 */
export async function brokenInvariants(superuser: Queryable, outboxIds: readonly string[]): Promise<string[]> {
  const ledger = await readLedgerText(superuser, outboxIds)
  const queued = new Set(ledger.pending.map((row) => row.outbox_id))
  const terminalOutcomes = ledger.identities.map(({ outbox_id: id }) => {
    const ended = ledger.attempts.filter(
      (row) => row.outbox_id === id && (row.state === 'DISPATCHED' || row.state === 'FAILED'),
    )
    return { id, places: ended.length + (queued.has(id) ? 1 : 0) }
  })
  const { rows } = await superuser.query<{ participant_id: string; taken: bigint[]; next: bigint }>(
    `SELECT i.participant_id, array_agg(i.sequence_id ORDER BY i.sequence_id) AS taken, min(s.next_sequence_id) AS next
     FROM payment_outbox_identities i LEFT JOIN participant_outbox_sequences s USING (participant_id)
     WHERE i.participant_id IN (SELECT o.participant_id FROM payment_outbox_identities o WHERE o.outbox_id = ANY ($1))
     GROUP BY i.participant_id`,
    [outboxIds],
  )
  return [
    ...brokenLedgerRules(ledger),
    ...terminalOutcomes
      .filter(({ places }) => places !== 1)
      .map(({ id, places }) => `${id}: pending or terminal ${places} times, expected once`),
    ...rows
      .filter(({ taken, next }) => [...taken, next].some((number, index) => number !== BigInt(index + 1)))
      .map(({ participant_id, taken, next }) => `${participant_id}: sequence numbers ${taken.join(' ')}, next ${next}`),
  ]
}

/** Compares attempts, events and state of each item, and the events of each scope, with the model. */
export async function ledgerDifferences(
  superuser: Queryable,
  model: OutboxModel,
  unverified: ReadonlySet<string>,
  idOf: (name: string) => string,
  scopes: { readonly nameOf: (scope: string) => string; readonly since: EventNumbers },
): Promise<string[]> {
  const { rows } = await superuser.query<{
    id: string
    state: string
    attempts: string[] | null
    events: string[] | null
  }>(
    `SELECT v.outbox_id AS id, v.state,
       (SELECT array_agg(concat_ws(' ', a.state, COALESCE(a.rail_reference, 'null'), a.action,
          CASE WHEN a.outcome_unknown THEN 'unknown' END) ORDER BY a.attempt_no)
        FROM payment_outbox_attempts a WHERE a.outbox_id = v.outbox_id) AS attempts,
       (SELECT array_agg(e.event_type ORDER BY e.event_no)
        FROM payment_outbox_events e WHERE e.outbox_id = v.outbox_id) AS events
     FROM unnest($1::uuid[]) AS given(outbox_id)
     CROSS JOIN LATERAL (SELECT * FROM outbox_operational_status o WHERE o.outbox_id = given.outbox_id) v`,
    [model.items.map((item) => idOf(item.name))],
  )
  const stored = new Map(rows.map((row) => [row.id, row]))
  const items = model.items.flatMap((item) => {
    const row = stored.get(idOf(item.name))
    const attempts = item.attempts.map(
      ({ state, reference, action, unknown }) => `${state} ${reference} ${action}${unknown ? ' unknown' : ''}`,
    )
    const state = unverified.has(item.name) ? (row?.state ?? '') : model.stateOf(item)
    return [
      ...difference(`${item.name}: state`, state, row?.state),
      ...difference(`${item.name}: attempts`, attempts.join(', '), row?.attempts?.join(', ') ?? ''),
      ...difference(
        `${item.name}: events`,
        item.events.map(({ type }) => type).join(', '),
        row?.events?.join(', ') ?? '',
      ),
    ]
  })
  const found = await superuser.query<{ scope: string; events: string }>(
    `SELECT scope, string_agg(event_type, ', ' ORDER BY event_no) AS events
     FROM payment_outbox_events WHERE scope = ANY ($1) AND event_no > COALESCE(($2::jsonb ->> scope)::bigint, 0)
     GROUP BY scope`,
    [[...model.scopes.keys()].map(scopes.nameOf), JSON.stringify(scopes.since)],
  )
  const eventsByScope = new Map(found.rows.map((row) => [row.scope, row.events]))
  return [
    ...items,
    ...[...model.scopes].flatMap(([scope, events]) =>
      difference(scope, events.join(', '), eventsByScope.get(scopes.nameOf(scope))),
    ),
  ]
}

/** Number of the last event by scope. */
type EventNumbers = Readonly<Record<string, string>>

export async function lastEventNumbers(superuser: Queryable, scopes: readonly string[]): Promise<EventNumbers> {
  const { rows } = await superuser.query<{ scope: string; last: string }>(
    'SELECT scope, max(event_no)::text AS last FROM payment_outbox_events WHERE scope = ANY ($1) GROUP BY scope',
    [scopes],
  )
  return Object.fromEntries(rows.map(({ scope, last }) => [scope, last]))
}

function difference(what: string, expected: string, actual: string | undefined): string[] {
  return expected === actual ? [] : [`${what} is ${actual}, expected ${expected}`]
}
