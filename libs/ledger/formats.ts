/**
 * Columns that the hashes of rows cover, by the format number in a block. A changed list is a new format. Old lists
 * stay, to verify their blocks. The sealer (schema/functions/outbox/seal.sql) repeats the newest list; a test compares
 * both lists with the catalog.
 */

export type RowKind = 'identity' | 'attempt' | 'event'

/** Kinds in the order of their numbers in a block: 1, 2, 3. */
export const KINDS: readonly RowKind[] = Object.freeze(['identity', 'attempt', 'event'])

export const TABLE_OF = Object.freeze({
  identity: 'payment_outbox_identities',
  attempt: 'payment_outbox_attempts',
  event: 'payment_outbox_events',
})

/** Columns of each kind in order. The first is the id of the row. */
export type Format = Readonly<Record<RowKind, readonly string[]>>

export const FORMATS: ReadonlyMap<number, Format> = new Map([
  [
    1,
    {
      identity: [
        'outbox_id',
        'instruction_id',
        'idempotency_key',
        'participant_id',
        'sequence_id',
        'rail_type',
        'ordered',
        'redrive_of',
        'content_hash',
        'created_at',
        'is_message',
        'key_scope',
        'stream_position',
        'outcome_topic',
        'replaces',
      ],
      attempt: [
        'attempt_id',
        'outbox_id',
        'instruction_id',
        'participant_id',
        'sequence_id',
        'idempotency_key',
        'rail_type',
        'payload',
        'attempt_no',
        'state',
        'claimed_at',
        'completed_at',
        'rail_reference',
        'rail_code',
        'error_code',
        'error_message',
        'latency_ms',
        'worker_id',
        'lease_token',
        'created_at',
        'action',
        'outcome_unknown',
      ],
      event: [
        'event_id',
        'outbox_id',
        'scope',
        'event_no',
        'event_type',
        'attempt_id',
        'actor',
        'detail',
        'created_at',
      ],
    },
  ],
])

/** Format of rows that no block covers yet. */
export const NEWEST_FORMAT: Format = [...FORMATS.values()].at(-1)!

/**
 * Columns that are hashed in another form. A lease token is replaced by its hash, because anyone with the token could
 * complete the item.
 */
export const EXPRESSIONS: Readonly<Record<string, string>> = Object.freeze({
  state: 't.state::text',
  lease_token: 'sha256(uuid_send(t.lease_token))',
})

/**
 * Columns that the digests of a run cover, in order. The event RECONCILED contains the digests, and blocks seal the
 * event. The database computes the digests with the same lists (schema/functions/reconciliation); a test compares the
 * lists with the catalog.
 */
export const DIGESTED = Object.freeze({
  reconciliation_entries: [
    'entry_key',
    'occurrence',
    'run_id',
    'kind',
    'outbox_id',
    'account',
    'bank_reference',
    'reference',
    'amount',
    'currency',
    'booked_on',
    'valued_on',
    'return_code',
    'position',
  ],
  reconciliation_findings: [
    'finding_id',
    'run_id',
    'finding_key',
    'kind',
    'severity',
    'outbox_id',
    'detail',
    'created_at',
  ],
} as const)

/** Columns that no format covers, with the reason. */
export const UNCOVERED: Readonly<Record<string, string>> = Object.freeze({
  traceparent: 'a trace does not concern the money',
  recorded_xid: 'is part of the entry of the row',
})
