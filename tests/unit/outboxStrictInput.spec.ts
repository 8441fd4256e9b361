import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import { checkDispatchEpoch, pauseOutbox, placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { type TestLogin, useTestDatabase, withTestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { gatewayOf } from '../support/httpFixture.js'
import { enqueuedAndClaimed } from '../support/inboxMessages.js'
import { createContradiction, complete, enqueue, enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { connectionOf, failureOf, openConnection, type Connection } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'
import { createClaimedJobRun, createClaimedTimer, createJob } from '../support/scheduled.js'

/**
 * SQL functions called directly, without the wrappers that check first. Each refuses null, blank, oversized and
 * malformed arguments with 22023, names the argument, never repeats its value, and writes nothing.
 * Each function has an item for which the same call with valid arguments succeeds.
 */

/** Part of every hostile text, so that a test finds an error that quotes it. */
const CANARY = 'CANARY4929'

/** SQL expressions by argument. */
type Arguments = Readonly<Record<string, string>>

interface Subject {
  readonly role: 'ingest' | 'executor' | 'control' | 'auditor' | 'auth'
  /** A call that succeeds. */
  readonly sound: () => Promise<Arguments>
  /** Arguments for which NULL has a meaning. All others refuse it. */
  readonly optional?: readonly string[]
  /** List arguments whose elements may be NULL. */
  readonly optionalElements?: readonly string[]
  /** SQLSTATE for a well-formed key of an unknown object. */
  readonly unknown?: string
}

const OUTCOME = ['p_rail_reference', 'p_rail_code', 'p_error_code', 'p_error_message', 'p_latency_ms']
const OUTCOMES = ['p_rail_references', 'p_rail_codes', 'p_error_codes', 'p_error_messages', 'p_latencies_ms']
const OUTCOMES_ASKED = [...OUTCOMES, 'p_retry_delays_seconds', 'p_outcomes_unknown', 'p_hold_reasons', 'p_actions']

const ONE_BY_ONE: Readonly<Record<string, Subject>> = {
  enqueue_payment_outbox: {
    role: 'ingest',
    sound: createInstruction,
    optional: ['p_not_before', 'p_trace_context', 'p_key_scope'],
  },
  enqueue_payment_outbox_batch: {
    role: 'ingest',
    sound: createBatch,
    optional: ['p_not_before', 'p_ordered', 'p_trace_contexts', 'p_key_scope'],
    optionalElements: ['p_not_before', 'p_trace_contexts'],
  },

  schedule_timer: {
    role: 'ingest',
    sound: async () => ({ ...buildScheduledMessage(), p_due_at: 'now()', p_timer_id: 'gen_random_uuid()' }),
    optional: ['p_participant_id', 'p_timer_id'],
  },
  cancel_timer: { role: 'ingest', sound: async () => ({ p_timer_id: uuid((await createClaimedTimer(db)).timerId) }) },

  ensure_subject_keys: {
    role: 'ingest',
    sound: async () => ({ p_subjects: `ARRAY['s']`, ...wrappedKeys() }),
  },
  read_subject_keys: { role: 'executor', sound: async () => ({ p_data_key_ids: 'ARRAY[gen_random_uuid()]' }) },
  master_keys_in_use: { role: 'executor', sound: async () => ({}) },
  rewrap_subject_keys: {
    role: 'control',
    sound: async () => ({ ...wrappedKeys(), p_previous_master_key_id: `'m'` }),
  },
  destroy_subject_key: { role: 'control', sound: async () => ({ p_subject: `'s'`, p_reason: `'asked to'` }) },

  claim_outbox_batch: {
    role: 'executor',
    sound: async () => ({
      p_batch_size: '1',
      p_worker_id: `'w'`,
      p_lease_seconds: '60',
      p_rails: `ARRAY['${(await enqueue(db)).railType}']`,
      p_marked_rails: `ARRAY['r']`,
      p_report_unleased: 'true',
      p_epoch_id: (await createEpoch())['p_epoch_id']!,
      p_is_message: 'false',
    }),
    optional: ['p_rails', 'p_marked_rails', 'p_epoch_id', 'p_is_message'],
  },
  renew_outbox_lease: { role: 'executor', sound: async () => ({ ...(await createLease()), p_lease_seconds: '60' }) },
  renew_outbox_leases: { role: 'executor', sound: async () => ({ ...(await leases()), p_lease_seconds: '60' }) },
  release_outbox_lease: { role: 'executor', sound: createLease },
  release_outbox_leases: { role: 'executor', sound: leases },
  begin_outbox_dispatch: { role: 'executor', sound: createLease },
  hold_leased_outbox_item: { role: 'executor', sound: async () => ({ ...(await createLease()), p_reason: `'odd'` }) },
  complete_outbox_attempt: {
    role: 'executor',
    sound: async () => ({
      ...(await createLease()),
      ...buildOutcome('RETRYABLE'),
      p_retry_delay_seconds: '60',
      p_outcome_unknown: 'false',
      p_hold_reason: `'odd'`,
      p_action: `'not_sent'`,
    }),
    optional: [...OUTCOME, 'p_retry_delay_seconds', 'p_outcome_unknown', 'p_hold_reason', 'p_action'],
  },
  complete_outbox_attempts: {
    role: 'executor',
    sound: async () => ({ ...(await leases()), ...outcomes('RETRYABLE'), p_is_message: 'false' }),
    optional: [...OUTCOMES_ASKED, 'p_is_message'],
    optionalElements: OUTCOMES_ASKED,
  },
  record_late_outcome: {
    role: 'executor',
    sound: async () => ({ ...(await createLease()), ...buildOutcome('DISPATCHED') }),
    optional: OUTCOME,
  },
  repair_expired_leases: {
    role: 'executor',
    sound: async () => ({ p_batch_size: '10', p_worker_id: `'w'`, p_report_failures: 'true' }),
  },
  seal_ledger_block: { role: 'executor', sound: async () => ({ p_rows_max: '10', p_interval_ms: '0' }) },
  verify_ledger_block: {
    role: 'executor',
    sound: async () => ({ p_rows_per_second: '1000', p_pass_seconds: '60' }),
  },
  outbox_backoff: { role: 'executor', sound: async () => ({ p_attempt_no: '1', p_outbox_id: 'gen_random_uuid()' }) },
  next_outbox_event: {
    role: 'executor',
    sound: async () => ({ p_rails: `ARRAY['r']`, p_is_message: 'true' }),
    optional: ['p_rails', 'p_is_message'],
  },
  heartbeat_outbox_worker: { role: 'executor', sound: async () => ({ p_worker_id: `'w'`, p_detail: `'{}'` }) },
  deregister_outbox_worker: { role: 'executor', sound: async () => ({ p_worker_id: `'w'`, p_detail: `'{}'` }) },
  ledger_sealing_status: { role: 'auditor', sound: async () => ({}) },
  declare_outbox_rail: {
    role: 'executor',
    sound: async () => ({
      p_rail_type: `'r'`,
      p_money: 'true',
      p_fields: `'{"/memo": "masked"}'`,
      p_declared_by: `'w'`,
      p_serving: 'true',
    }),
  },
  check_dispatch_epoch: { role: 'executor', sound: async () => ({ p_worker_id: `'w'`, ...(await createEpoch()) }) },
  due_jobs: { role: 'executor', sound: async () => ({ p_batch_size: '10' }) },
  create_job_runs: {
    role: 'executor',
    sound: async () => ({
      p_job_names: `ARRAY['${await createJob(db)}']`,
      p_revisions: 'ARRAY[1]',
      p_next_due_at: 'ARRAY[now()]',
      p_scheduled_for: 'ARRAY[now()]',
    }),
    optionalElements: ['p_scheduled_for'],
  },
  postpone_job: {
    role: 'executor',
    sound: async () => ({ p_job_name: `'${await createJob(db)}'`, p_revision: '1', p_error_message: `'unreadable'` }),
  },
  next_scheduler_event: { role: 'executor', sound: async () => ({ p_outbox_only: 'false' }) },
  enqueue_due_timers: { role: 'executor', sound: async () => ({ p_batch_size: '10' }) },
  claim_timers: { role: 'executor', sound: async () => buildSchedulerClaim(), optional: ['p_topics'] },
  ack_timers: { role: 'executor', sound: timerClaims },
  abandon_timers: {
    role: 'executor',
    sound: async () => ({ ...(await timerClaims()), p_error_message: `'busy'`, p_retry_delay_seconds: '60' }),
    optional: ['p_error_message'],
  },
  fail_timers: {
    role: 'executor',
    sound: async () => ({ ...(await timerClaims()), p_error_message: `'busy'` }),
    optional: ['p_error_message'],
  },
  purge_finished_timers: { role: 'executor', sound: async () => ({ p_retention_seconds: '60', p_batch_size: '10' }) },
  enqueue_due_job_runs: { role: 'executor', sound: async () => ({ p_batch_size: '10' }) },
  claim_job_runs: { role: 'executor', sound: async () => buildSchedulerClaim(), optional: ['p_topics'] },
  ack_job_runs: { role: 'executor', sound: runClaims },
  abandon_job_runs: {
    role: 'executor',
    sound: async () => ({ ...(await runClaims()), p_error_message: `'busy'`, p_retry_delay_seconds: '60' }),
    optional: ['p_error_message'],
  },
  fail_job_runs: {
    role: 'executor',
    sound: async () => ({ ...(await runClaims()), p_error_message: `'busy'` }),
    optional: ['p_error_message'],
  },
  purge_finished_job_runs: { role: 'executor', sound: async () => ({ p_retention_seconds: '60', p_batch_size: '10' }) },

  acquire_lease: {
    role: 'executor',
    sound: async () => ({ p_resource: `'r'`, p_owner: `'o'`, p_duration_ms: '60000', p_context: `'{}'` }),
  },
  renew_lease: { role: 'executor', sound: async () => ({ ...(await createHeldLease()), p_duration_ms: '60000' }) },
  release_lease: { role: 'executor', sound: createHeldLease },
  purge_idle_leases: { role: 'executor', sound: async () => ({ p_idle_seconds: '3600', p_batch_size: '10' }) },

  place_outbox_hold: {
    role: 'control',
    sound: async () => ({ p_outbox_id: uuid((await enqueue(db)).outboxId), p_reason: `'odd'` }),
  },
  resolve_outbox_hold: {
    role: 'control',
    sound: async () => ({
      p_outbox_id: uuid(await createHeldItem()),
      p_decision: `'DISPATCHED'`,
      p_reason: `'checked'`,
      p_rail_reference: `'ref'`,
    }),
  },
  redrive_outbox_item: {
    role: 'control',
    sound: async () => ({ p_outbox_id: uuid(await createFailedItem()), p_reason: `'again'` }),
  },
  approve_outbox_proposal: { role: 'control', sound: async () => ({ p_proposal_id: uuid(await createProposal()) }) },
  withdraw_outbox_proposal: {
    role: 'control',
    sound: async () => ({ p_proposal_id: uuid(await createProposal()), p_reason: `'mistaken'` }),
  },
  review_outbox_contradiction: {
    role: 'control',
    sound: async () => ({ p_event_id: uuid(await createContradiction(db)), p_reason: `'compared'` }),
  },
  record_ledger_verification: {
    role: 'auditor',
    sound: async () => ({ p_rows_checked: '10', p_break_count: '1' }),
  },
  pause_outbox: { role: 'control', sound: async () => pause('rail-to-pause') },
  resume_outbox: {
    role: 'control',
    sound: async () => {
      await pauseOutbox(db.as('symphony_control'), 'rail', 'rail-to-resume', 'maintenance')
      return pause('rail-to-resume')
    },
  },
  freeze_dispatch: { role: 'control', sound: async () => ({ p_reason: `'restored'` }) },
  lift_dispatch_freeze: { role: 'control', sound: async () => ({ p_reason: `'compared'` }) },
  set_participant_outbox_policy: {
    role: 'control',
    sound: async () => ({ p_participant_id: `'p'`, p_on_ordered_failure: `'halt'` }),
  },

  unserved_outbox_rails: { role: 'ingest', sound: async () => ({ p_rails: `'{rail}'` }) },

  enqueue_inbox_message: { role: 'ingest', sound: async () => createMessage('new'), optional: ['p_not_before'] },
  enqueue_inbox_messages: {
    role: 'ingest',
    sound: async () => ({
      p_sources: `ARRAY['s']`,
      p_message_ids: `ARRAY['m']`,
      p_topics: `ARRAY['t']`,
      p_payloads: `ARRAY['{"a": 1}'::jsonb]`,
      p_not_before: 'ARRAY[now()]',
    }),
    optional: ['p_not_before'],
    optionalElements: ['p_not_before'],
  },
  record_inbox_sighting: {
    role: 'executor',
    sound: async () => ({ p_source: `'s'`, p_message_id: `'m'`, p_topic: `'t'`, p_payload: `'{"a": 1}'` }),
  },
  mark_inbox_processing: { role: 'executor', sound: createSighting, unknown: 'P7011' },
  mark_inbox_processed: {
    role: 'executor',
    sound: async () => {
      const key = await createSighting()
      await db
        .as('symphony_executor')
        .query(`SELECT ${db.qualify('mark_inbox_processing')}(${key['p_source']}, ${key['p_message_id']})`)
      return key
    },
    unknown: 'P7011',
  },
  mark_inbox_dead: {
    role: 'executor',
    sound: async () => ({ ...(await createSighting()), p_error: `'poison'` }),
    unknown: 'P7011',
  },
  claim_inbox_batch: {
    role: 'executor',
    sound: async () => ({ p_batch_size: '1', p_worker_id: `'w'`, p_lease_seconds: '60', p_attempts_max: '20' }),
  },
  ack_inbox_messages: { role: 'executor', sound: inboxClaims },
  abandon_inbox_messages: {
    role: 'executor',
    sound: async () => ({
      ...(await inboxClaims()),
      p_errors: `ARRAY['odd']`,
      p_retry_delays_seconds: 'ARRAY[60]',
      p_costs_attempt: 'true',
    }),
    optional: ['p_errors', 'p_retry_delays_seconds'],
    optionalElements: ['p_errors', 'p_retry_delays_seconds'],
  },
  fail_inbox_messages: {
    role: 'executor',
    sound: async () => ({ ...(await inboxClaims()), p_errors: `ARRAY['odd']` }),
    optional: ['p_errors'],
    optionalElements: ['p_errors'],
  },
  next_inbox_event: { role: 'executor', sound: async () => ({}) },
  purge_inbox_messages: { role: 'executor', sound: async () => ({ p_keep_seconds: '60', p_batch_size: '10' }) },
  revive_inbox_message: {
    role: 'control',
    sound: async () => {
      const key = await createSighting()
      await db
        .as('symphony_executor')
        .query(`SELECT ${db.qualify('mark_inbox_dead')}(${key['p_source']}, ${key['p_message_id']}, 'poison')`)
      return { ...key, p_reason: `'repaired'` }
    },
    unknown: 'P7011',
  },
  create_or_update_job: {
    role: 'control',
    sound: async () => ({
      ...buildScheduledMessage(),
      p_job_name: `'j'`,
      p_cron: `'@daily'`,
      p_time_zone: `'UTC'`,
      p_next_due_at: 'now()',
      p_missed_runs: `'once'`,
    }),
    optional: ['p_participant_id'],
  },
  pause_job: { role: 'control', sound: createJobName, unknown: 'P7012' },
  resume_job: {
    role: 'control',
    sound: async () => ({ ...(await createJobName()), p_revision: '1', p_next_due_at: 'now()' }),
    unknown: 'P7012',
  },
  trigger_job: { role: 'control', sound: createJobName, unknown: 'P7012' },
  delete_job: { role: 'control', sound: createJobName },
  create_api_key: {
    role: 'control',
    sound: async () => ({
      p_key_id: `'soundkey'`,
      p_secret_hash: `sha256('s')`,
      p_scopes: `ARRAY['read']`,
      p_person: `'alice'`,
      p_participants: `ARRAY['p']`,
      p_expires_at: `now() + interval '1 day'`,
    }),
    optional: ['p_participants', 'p_expires_at'],
  },
  revoke_api_key: { role: 'control', sound: async () => ({ p_key_id: await createKeyId() }) },
  is_actor_gateway: { role: 'control', sound: async () => ({ p_without_key: 'true' }), optional: ['p_without_key'] },
  authenticate_api_key: {
    role: 'auth',
    sound: async () => ({ p_key_id: `'soundkey'`, p_secret_hash: `sha256('s')` }),
  },
}

/** Functions that return one packed row take the same arguments as their forms with one row per item. */
const SUBJECTS: Readonly<Record<string, Subject>> = {
  ...ONE_BY_ONE,
  enqueue_outbox_packed: ONE_BY_ONE['enqueue_payment_outbox_batch']!,
  claim_outbox_packed: ONE_BY_ONE['claim_outbox_batch']!,
  complete_outbox_packed: ONE_BY_ONE['complete_outbox_attempts']!,
}
const names = Object.keys(SUBJECTS)

/** Values that an argument refuses and accepts, by description. Batch forms take them as elements. */
interface Limits {
  readonly refused: Readonly<Record<string, string>>
  readonly accepted: Readonly<Record<string, string>>
  /** @default 22023 */
  readonly code?: string
}

const ID: Limits = {
  refused: {
    'an empty one': `''`,
    'a blank one': `'   '`,
    'a space inside': `'${CANARY} b'`,
    'a leading space': `' ${CANARY}'`,
    '129 characters': `rpad('${CANARY}', 129, 'x')`,
    '5,000 characters': `rpad('${CANARY}', 5000, 'x')`,
    'a tab': `E'${CANARY}\\tb'`,
    'a line end': `E'${CANARY}\\n'`,
    'an escape character': `E'${CANARY}\\u001b[0m'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a letter beyond ASCII': `'${CANARY}é'`,
    'a no-break space': `E'${CANARY}\\u00a0'`,
    'a right-to-left mark': `E'${CANARY}\\u200f'`,
    'a zero-width space': `E'\\u200b'`,
  },
  accepted: { 'the first and last printable character': `'!~'`, '128 characters': `repeat('x', 128)` },
}

const INBOX_ID: Limits = {
  refused: {
    'an empty one': `''`,
    'a blank one': `'   '`,
    'a no-break space': `E'\\u00a0'`,
    'wide spaces': `E'\\u2003\\u3000\\ufeff'`,
    '256 characters': `rpad('${CANARY}', 256, 'x')`,
    '256 characters of several bytes': `repeat('é', 256)`,
    '5,000 characters': `rpad('${CANARY}', 5000, 'x')`,
    'a tab': `E'${CANARY}\\tb'`,
    'a line end': `E'${CANARY}\\n'`,
    'an escape character': `E'${CANARY}\\u001b[0m'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a control character beyond ASCII': `E'${CANARY}\\u0085'`,
  },
  accepted: { 'spaces among letters': `' é b '`, '255 characters of four bytes': `repeat(E'\\U0001F600', 255)` },
}

const KEY: Limits = {
  refused: { ...ID.refused, 'a key as redrive makes them': `'${CANARY}~redrive~1'` },
  accepted: { ...ID.accepted, 'a key that only looks like one of a redrive': `'a~redrive~1b'` },
}

const text = (lengthMax: number): Limits => ({
  refused: {
    'an empty one': `''`,
    'a blank one': `E' \\t\\r\\n'`,
    'one character too many': `rpad('${CANARY}', ${lengthMax + 1}, 'x')`,
    'one character too many, each of several bytes': `repeat('é', ${lengthMax + 1})`,
    'far too many': `rpad('${CANARY}', 1000000, 'x')`,
    'an escape character': `E'${CANARY}\\u001b[31m'`,
    'a bell': `E'${CANARY}\\u0007'`,
    'a delete character': `E'${CANARY}\\u007f'`,
    'a control character beyond ASCII': `E'${CANARY}\\u0085'`,
  },
  accepted: {
    'the longest, each character of several bytes': `repeat('é', ${lengthMax})`,
    'line ends and tabs': `E'a\\tb\\r\\nc'`,
  },
})

const integer = (min: number, max: number): Limits => ({
  refused: Object.fromEntries(
    [min - 1, max + 1, -1, -2_147_483_648, 2_147_483_647]
      .filter((value) => (value < min || value > max) && value <= 2_147_483_647)
      .map((value) => [String(value), `(${value})::integer`]),
  ),
  accepted: { [String(min)]: String(min), [String(max)]: String(max) },
})

const oneOf = (...words: readonly string[]): Limits => ({
  refused: {
    'an unknown word': `'${CANARY}'`,
    'an empty word': `''`,
    'another case': `'${words[0]!.toUpperCase() === words[0] ? words[0].toLowerCase() : words[0]!.toUpperCase()}'`,
    'a space behind': `'${words[0]} '`,
  },
  accepted: {},
})

const STATE: Limits = {
  ...oneOf('DISPATCHED'),
  refused: { ...oneOf('DISPATCHED').refused, DISPATCHING: `'DISPATCHING'`, ZOMBIE_REQUEUE: `'ZOMBIE_REQUEUE'` },
  code: 'P7003',
}

const PAYLOAD: Limits = {
  refused: {
    'an array': `'[]'`,
    'a string': `'"${CANARY}"'`,
    'a number': `'1'`,
    'a boolean': `'true'`,
    'a null': `'null'`,
    'a thousand numbers of 131,072 digits': numbers('1e131071', 1000),
    'one number of 131,072 digits': numbers('1e131071', 1),
    'a negative number of 131,072 digits': numbers('-1e131071', 1),
    'one zero of 16,383 decimals': numbers('0e-16383', 1),
    'seven thousand zeros of 16,383 decimals': numbers('0e-16383', 7000),
    'a number of 22 digits': numbers('1000000000000000000000', 1),
    'a negative number of 22 digits': numbers('-1000000000000000000000', 1),
    'a number that no double holds': numbers('9007199254740993', 1),
    'a fraction that no double holds': numbers('0.30000000000000001', 1),
    'a number that no double holds among good ones': `jsonb_build_object('a', ${numbers('1', 500)} -> 'a' || '9007199254740993'::jsonb)`,
    'a number of 21 decimals': numbers('0.000000000000000000001', 1),
    'a number of 21 decimals that say nothing': numbers('1.000000000000000000000', 1),
    'a number too large, deep inside': `jsonb_set(${nested(32)}, string_to_array(repeat('a ', 30) || 'a', ' '), '{"b": 1e22}')`,
    'a number too large among good ones': `jsonb_build_object('a', ${numbers('1', 500)} -> 'a' || '1e22'::jsonb)`,
    'nesting of 33': nested(33),
    'nesting of 33, ended by an array': nested(33, 'array'),
    'nesting of 200': nested(200),
    '65,537 bytes': bytes(65_537),
    '65,537 bytes of two-byte characters': `jsonb_build_object('a', repeat('é', 32763) || '${'x'.repeat(2)}')`,
    '100 KB': bytes(100_000),
    '100,000 numbers': numbers('1', 100_000),
    '10 MB': bytes(10_000_000),
  },
  accepted: {
    'an empty one': `'{}'`,
    'the largest number': numbers('999999999999999900000', 1),
    'the smallest number': numbers('-999999999999999900000', 1),
    'a number below the middle of two doubles': numbers('18014398509481988', 1),
    'a number of 20 decimals': numbers('0.00000000000000000001', 1),
    'nesting of 32': nested(32),
    'nesting of 32, ended by an array': nested(32, 'array'),
    '65,536 bytes': bytes(65_536),
    '65,536 bytes of two-byte characters': `jsonb_build_object('a', repeat('é', 32763) || 'x')`,
    'as many numbers as fit': numbers('1', 21_842),
    'as many nested numbers as fit': `jsonb_build_object('a', (SELECT jsonb_agg('[1]'::jsonb) FROM generate_series(1, 13105)))`,
    'an empty key, escapes and letters beyond ASCII': `'{"": "\\u0001 \\" \\\\ é \\ud83d\\ude00"}'`,
  },
}

const TIME: Limits = {
  refused: {
    infinity: `'infinity'::timestamptz`,
    'minus infinity': `'-infinity'::timestamptz`,
    'a time in 101 years': `now() + interval '101 years'`,
    'a time 101 years ago': `now() - interval '101 years'`,
  },
  accepted: {
    'a time in 99 years': `now() + interval '99 years'`,
    'a time 99 years ago': `now() - interval '99 years'`,
  },
}

const A_TRACE_CONTEXT = `'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=1'`

/** Comes from headers of outside callers. An invalid trace context is dropped and the payment accepted. */
const TRACE_CONTEXT: Limits = {
  refused: {},
  accepted: {
    'an empty one': `''`,
    'no trace context': `'${CANARY}'`,
    'all zeros': `'00-' || repeat('0', 32) || '-' || repeat('0', 16) || '-00'`,
    'a line end': `E'00-\r\nSet-Cookie: ${CANARY}'`,
    'a megabyte': `rpad('${CANARY}', 1000000, 'x')`,
  },
}

/** Ids of API keys. An unknown well-formed id is refused with the same words. */
const KEY_ID: Limits = {
  refused: {
    'an empty one': `''`,
    'seven characters': `'${'k'.repeat(7)}'`,
    '33 characters': `rpad('key', 33, 'x')`,
    capitals: `'${CANARY}KEY'`,
    'a dash': `'${CANARY.toLowerCase()}-key'`,
    'a line end': `E'${CANARY.toLowerCase()}\\n'`,
  },
  accepted: {},
}

const SECRET_HASH: Limits = {
  refused: {
    nothing: `''::bytea`,
    '31 bytes': `'\\x${'00'.repeat(31)}'::bytea`,
    '33 bytes': `'\\x${'00'.repeat(33)}'::bytea`,
  },
  accepted: { '32 bytes': `'\\x${'00'.repeat(32)}'::bytea` },
}

const EXPIRY: Limits = {
  refused: {
    'a time that has passed': `now() - interval '1 second'`,
    infinity: `'infinity'`,
    'a time in 101 years': `now() + interval '101 years'`,
  },
  accepted: { 'a time in 99 years': `now() + interval '99 years'` },
}

const FIELDS: Limits = {
  refused: {
    ...PAYLOAD.refused,
    'an unknown class': `'{"/memo": "${CANARY}"}'`,
    'a place that is no pointer': `'{"${CANARY}": "masked"}'`,
  },
  accepted: {
    nothing: `'{}'`,
    'every class': `'{"/a": "public", "/*/b": "masked", "/c~1d": "encrypted", "/e": "forbidden"}'`,
  },
}

const LIMITS: Readonly<Record<string, Limits>> = {
  p_key_id: KEY_ID,
  p_secret_hash: SECRET_HASH,
  p_scope: {
    refused: { nothing: `''`, 'an unknown one': `'${CANARY}'`, capitals: `'READ'` },
    accepted: { audit: `'audit'` },
  },
  p_subject: ID,
  p_marked_rail: ID,
  p_master_key_id: ID,
  p_previous_master_key_id: ID,
  p_wrapped_key: {
    refused: {
      nothing: `''`,
      '79 characters': `repeat('A', 79)`,
      '81 characters': `repeat('A', 81)`,
      'what is not base64url': `rpad('${CANARY}+', 80, 'A')`,
      'a line end': `E'${CANARY}\\n' || repeat('A', 69)`,
    },
    accepted: { '80 characters': `repeat('_', 80)` },
  },
  p_person: text(200),
  p_participant: ID,
  p_expires_at: EXPIRY,
  p_instruction_id: ID,
  p_participant_id: ID,
  p_topic: ID,
  p_job_name: ID,
  p_time_zone: ID,
  p_cron: text(256),
  p_idempotency_key: KEY,
  p_rail_type: ID,
  p_worker_id: ID,
  p_resource: ID,
  p_owner: ID,
  p_name: ID,
  p_rail: ID,
  p_payload: PAYLOAD,
  p_detail: PAYLOAD,
  p_fields: FIELDS,
  p_declared_by: ID,
  p_context: PAYLOAD,
  p_not_before: TIME,
  p_due_at: TIME,
  p_next_due_at: TIME,
  p_scheduled_for: TIME,
  p_beat_at: TIME,
  p_beat_no: integer(0, 2_147_483_647),
  p_revision: integer(1, 2_147_483_647),
  p_retention_seconds: integer(60, 315_360_000),
  p_batch_size: integer(1, 1000),
  p_lease_seconds: integer(1, 3600),
  p_duration_ms: integer(1_000, 3_600_000),
  p_idle_seconds: integer(3_600, 315_360_000),
  p_latency_ms: integer(0, 2_147_483_647),
  p_retry_delay_seconds: integer(0, 2_592_000),
  p_attempt_no: integer(1, 2_147_483_647),
  p_reason: text(1000),
  p_hold_reason: text(1000),
  p_action: oneOf('sent', 'inquired'),
  p_rail_reference: text(255),
  p_rail_code: text(128),
  p_error_code: text(128),
  p_error_message: text(2000),
  p_state: STATE,
  p_decision: { ...oneOf('DISPATCHED'), accepted: {} },
  p_kind: oneOf('rail'),
  p_on_ordered_failure: oneOf('halt'),
  p_source: INBOX_ID,
  p_message_id: INBOX_ID,
  p_error: text(2000),
  p_attempts_max: integer(1, 1000),
  p_rows_max: integer(1, 100_000),
  p_interval_ms: integer(0, 3_600_000),
  p_rows_per_second: integer(1, 1_000_000),
  p_pass_seconds: integer(0, 2_592_000),
  p_rows_checked: { refused: { 'less than none': '-1' }, accepted: { none: '0' } },
  p_break_count: { refused: { 'less than none': '-1' }, accepted: { none: '0' } },
  p_keep_seconds: integer(1, 315_576_000),
  p_delivery: oneOf('outbox'),
  p_missed_runs: oneOf('once'),
  p_trace_context: TRACE_CONTEXT,
  p_key_scope: text(500),
}

/** Arguments that accept every value of their type. */
const WITHOUT_LIMITS = [
  'p_data_key_id',
  'p_report_unleased',
  'p_report_failures',
  'p_is_message',
  'p_epoch_id',
  'p_outbox_id',
  'p_lease_token',
  'p_lease_id',
  'p_proposal_id',
  'p_event_id',
  'p_ordered',
  'p_money',
  'p_serving',
  'p_without_key',
  'p_outcome_unknown',
  'p_fence',
  'p_costs_attempt',
  'p_timer_id',
  'p_run_id',
  'p_outbox_only',
]

/** Plural arguments of the batch forms that are not the single form with an `s`. */
const IRREGULAR: Readonly<Record<string, string>> = {
  p_latencies_ms: 'p_latency_ms',
  p_retry_delays_seconds: 'p_retry_delay_seconds',
  p_outcomes_unknown: 'p_outcome_unknown',
}

const db = await useTestDatabase()
let proposer: TestLogin
const connections = new Map<Subject['role'], Connection>()
const soundArguments = new Map<string, Arguments>()
let signatures: ReadonlyMap<string, readonly Argument[]>
let before: Record<string, string>

interface Argument {
  readonly name: string
  readonly type: string
}

beforeAll(async () => {
  proposer = await db.createLogin('proposer', { roles: ['symphony_control'] })
  signatures = await readSignatures()
  for (const role of ['executor', 'control', 'auditor', 'auth'] as const) {
    connections.set(role, await openConnection(db, `symphony_${role}`))
  }
  // Only a gateway may pass p_key_scope.
  const gateway = await (await gatewayOf(db)).connect()
  await gateway.query('SET ROLE symphony_ingest')
  connections.set('ingest', await connectionOf(db, gateway))
  for (const name of names) soundArguments.set(name, await SUBJECTS[name]!.sound())
  before = await rowHashes(db)
})
afterAll(async () => {
  process.stdout.write(`strict input: ${calls} calls\n`)
})

test('every function that a runtime role may call is tested with every argument', () => {
  expect(names.toSorted()).toEqual([...signatures.keys()].toSorted())
  for (const name of names) {
    const given = Object.keys(soundArguments.get(name)!).toSorted()
    const declared = signatures.get(name)!.map((argument) => argument.name)
    expect([name, ...given]).toEqual([name, ...declared.toSorted()])
  }
})

test('every argument has an entry in LIMITS or WITHOUT_LIMITS', () => {
  const all = names.flatMap((name) => Object.keys(soundArguments.get(name)!))
  const known = new Set([...Object.keys(LIMITS), ...WITHOUT_LIMITS])
  expect(all.filter((argument) => !known.has(singular(argument)))).toEqual([])
})

describe.each(names)('%s', (name) => {
  const subject = SUBJECTS[name]!

  test('accepts valid arguments', async () => {
    expect(await attempt(name, {})).toBe('accepted')
  })

  test('refuses NULL for exactly the arguments that are not optional (22023)', async () => {
    for (const { name: argument, type } of signatures.get(name)!) {
      const refused = { code: '22023', names: singular(argument) }
      expect([argument, await attempt(name, { [argument]: `NULL::${type}` })]).toEqual([
        argument,
        subject.optional?.includes(argument) === true ? 'accepted' : refused,
      ])
    }
    expect(await rowHashes(db)).toEqual(before)
  })

  test('refuses values beyond their limits and accepts values at the limits', async () => {
    for (const { name: argument, type } of signatures.get(name)!) {
      const limits = limitsOf(argument)
      const isList = type.endsWith('[]')
      const value = (expression: string) => (isList ? `ARRAY[${expression}]::${type}` : `(${expression})::${type}`)
      for (const [what, expression] of Object.entries(limits.refused)) {
        expect([argument, what, await attempt(name, { [argument]: value(expression) })]).toEqual([
          argument,
          what,
          { code: limits.code ?? '22023', names: singular(argument) },
        ])
      }
      // The id of another worker is well-formed, but that worker has no lease.
      const isFence = argument === 'p_worker_id' && 'p_lease_token' in soundArguments.get(name)!
      for (const [what, expression] of Object.entries(limits.accepted)) {
        expect([argument, what, await attempt(name, { [argument]: value(expression) })]).toEqual([
          argument,
          what,
          isFence ? 'no lease' : isKey(argument) && subject.unknown !== undefined ? 'unknown' : 'accepted',
        ])
      }
    }
    expect(await rowHashes(db)).toEqual(before)
  })

  test('refuses arrays that are not one-dimensional lists of the right length (22023)', async () => {
    const lists = signatures.get(name)!.filter(({ type }) => type.endsWith('[]'))
    for (const { name: argument, type } of lists) {
      const sound = soundArguments.get(name)![argument]!
      const element = `(${sound}::${type})[1]`
      const isAlone = lists.length === 1 || singular(argument).endsWith('rail')
      const misshapen: Record<string, string> = {
        'an empty array': `'{}'::${type}`,
        'an array of arrays': `ARRAY[${sound}::${type}]`,
        'an array counted from 0': `array_fill(${element}, ARRAY[1], ARRAY[0])`,
        'an array counted from 2': `array_fill(${element}, ARRAY[1], ARRAY[2])`,
        '1,001 elements': `array_fill(${element}, ARRAY[1001])`,
        'an array of arrays of no element': `ARRAY['{}'::${type}, '{}']`,
        ...(isAlone ? {} : { 'one element more than the others': `${sound}::${type} || ${element}` }),
        ...(subject.optionalElements?.includes(argument) === true ? {} : { 'a NULL': `ARRAY[NULL]::${type}` }),
      }
      for (const [what, expression] of Object.entries(misshapen)) {
        const outcome = await attempt(name, { [argument]: expression })
        expect([argument, what, outcome]).toEqual([
          argument,
          what,
          { code: '22023', names: expect.stringMatching(/^p_[a-z_]+$/) },
        ])
      }
    }
    expect(await rowHashes(db)).toEqual(before)
  })
})

describe('batch functions', () => {
  test('name the malformed list, except the one that sets the length (22023)', async () => {
    for (const { name: argument, type } of signatures.get('enqueue_payment_outbox_batch')!.slice(1)) {
      if (!type.endsWith('[]')) continue
      const sound = soundArguments.get('enqueue_payment_outbox_batch')![argument]!
      expect(await attempt('enqueue_payment_outbox_batch', { [argument]: `ARRAY[${sound}]` })).toEqual({
        code: '22023',
        names: singular(argument),
      })
    }
    for (const argument of OUTCOMES_ASKED) {
      const sound = soundArguments.get('complete_outbox_attempts')![argument]!
      expect(await attempt('complete_outbox_attempts', { [argument]: `ARRAY[${sound}]` })).toEqual({
        code: '22023',
        names: singular(argument),
      })
    }
  })

  test.each([
    ['p_instruction_ids', `'two words'`],
    ['p_instruction_ids', `''`],
    ['p_instruction_ids', 'NULL'],
    ['p_instruction_ids', `repeat('i', 129)`],
    ['p_participant_ids', `'\u00e9'`],
    ['p_participant_ids', 'chr(127)'],
    ['p_idempotency_keys', `E'a\\nb'`],
    ['p_idempotency_keys', `'key~redrive~1'`],
    ['p_rail_types', `E'a\\tb'`],
    ['p_rail_types', 'NULL'],
    ['p_payloads', 'NULL'],
    ['p_payloads', `'[]'`],
    ['p_payloads', `'{"a": 1e30}'`],
    ['p_payloads', `'{"a": 1e-21}'`],
    ['p_payloads', `'{"a": 1e131071}'`],
    ['p_payloads', `('{"a":' || repeat('[', 32) || repeat(']', 32) || '}')::jsonb`],
    ['p_payloads', `jsonb_build_object('a', repeat('x', 65536))`],
    ['p_not_before', `'infinity'`],
    ['p_not_before', `now() + interval '101 years'`],
    ['p_ordered', 'NULL'],
  ])('name one invalid item among 1,000 by its ordinal: %s, %s (22023)', async (argument, bad) => {
    const batch = buildBatchOf(1000)
    const good = { p_not_before: 'array_fill(now(), ARRAY[1000])', p_ordered: 'array_fill(true, ARRAY[1000])' }
    const list = { ...batch, ...good }[argument]
    const spoiled = `ARRAY(SELECT CASE WHEN n = 700 THEN ${bad} ELSE g END FROM unnest(${list}) WITH ORDINALITY AS t(g, n) ORDER BY n)`
    const error = await failureOf(call('enqueue_payment_outbox_batch', { ...batch, [argument]: spoiled }))
    expect(error).toMatchObject({
      code: '22023',
      message: expect.stringMatching(new RegExp(`^${argument.replace(/s$/, '')} of item 700: expected `)),
    })
    expect(await rowHashes(db)).toEqual(before)
  })

  test('accept 1,000 items, not 1,001 (22023)', async () => {
    expect(await attempt('enqueue_payment_outbox_batch', buildBatchOf(1000))).toBe('accepted')
    expect(await attempt('enqueue_payment_outbox_batch', buildBatchOf(1001))).toEqual({
      code: '22023',
      names: 'p_instruction_id',
    })
    for (const name of ['complete_outbox_attempts', 'renew_outbox_leases', 'release_outbox_leases']) {
      expect(await attempt(name, repeated(name, 1000))).toBe('accepted')
      expect(await attempt(name, repeated(name, 1001))).toEqual({ code: '22023', names: 'p_outbox_id' })
    }
  })

  test('refuse p_not_before lists with other bounds or dimensions (22023)', async () => {
    for (const list of [`'[0:0]={infinity}'`, `'{{infinity}}'`, `'[5:5]={-infinity}'`]) {
      expect(await attempt('enqueue_payment_outbox_batch', { p_not_before: `${list}::timestamptz[]` })).toEqual({
        code: '22023',
        names: 'p_not_before',
      })
    }
  })
})

describe('invalid jsonb payloads', () => {
  test.each([
    ['a NUL', `{"a": "\\u0000"}`, '22P05'],
    ['a lone high surrogate', `{"a": "\\ud800"}`, '22P02'],
    ['a lone low surrogate', `{"a": "\\udc00"}`, '22P02'],
    ['NaN', `{"a": NaN}`, '22P02'],
    ['Infinity', `{"a": Infinity}`, '22P02'],
    ['a number beyond numeric', `{"a": 1e200000}`, '22003'],
    ['nesting of 1,000,000', `{"a": ${'['.repeat(1_000_000)}`, '54001'],
    ['no JSON at all', CANARY, '22P02'],
  ])('do not reach the function: %s', async (_what, payload, code) => {
    for (const name of ['enqueue_payment_outbox', 'heartbeat_outbox_worker']) {
      const argument = name === 'enqueue_payment_outbox' ? 'p_payload' : 'p_detail'
      const given = { ...soundArguments.get(name)!, [argument]: '$1' }
      expect(await failureOf(call(name, given, [payload]))).toMatchObject({ code })
    }
    expect(await rowHashes(db)).toEqual(before)
  })
})

test('bump_participant_outbox_seq refuses an invalid participant id (22023)', async () => {
  for (const expression of ['NULL', ...Object.values(ID.refused)]) {
    const refused = db.queryNoRole(`SELECT bump_participant_outbox_seq(${expression})`)
    expect(await failureOf(refused)).toMatchObject({
      code: '22023',
      message: expect.stringMatching(/^p_participant_id: /),
    })
  }
})

test('a gateway must set a valid symphony.actor (22023)', async () => {
  await withTestDatabase(async (own) => {
    const gateway = await own.createLogin('gateway', { roles: ['symphony_control'], inherit: true })
    await own.queryNoRole('UPDATE symphony_settings SET actor_gateways = ARRAY[$1], naming_gateways = ARRAY[$1]', [
      gateway.name,
    ])
    const client = await gateway.connect()
    const hold = `SELECT place_outbox_hold(p_outbox_id => '${(await enqueue(own)).outboxId}', p_reason => 'odd')`
    expect(await failureOf(client.query(hold))).toMatchObject({ code: '22023' })
    for (const actor of ['', '   ', `${CANARY} via web`, `${CANARY}${'x'.repeat(200)}`, `${CANARY}\u001B`, '\u0085']) {
      await client.query(`SELECT set_config('symphony.actor', $1, false)`, [actor])
      const error = await failureOf(client.query(hold))
      expect(error).toMatchObject({ code: '22023', message: expect.stringMatching(/^symphony\.actor: /) })
      expect(saidIn(error)).not.toContain(CANARY)
    }
    await client.query(`SELECT set_config('symphony.actor', $1, false)`, ['é'.repeat(200)])
    expect((await client.query(hold)).rowCount).toBe(1)
  })
})

/** Returns whether the argument is the key of a message or job. */
function isKey(argument: string): boolean {
  return ['p_source', 'p_message_id', 'p_job_name'].includes(argument)
}

type Outcome = 'accepted' | 'no lease' | 'unknown' | { readonly code: string; readonly names: string }

let calls = 0

/** Calls the function with these arguments in place of valid ones, rolls back, and returns the outcome. */
async function attempt(name: string, overrides: Arguments): Promise<Outcome> {
  calls += 1
  const { client } = connections.get(SUBJECTS[name]!.role)!
  await client.query('BEGIN')
  try {
    await call(name, { ...soundArguments.get(name)!, ...overrides })
    return 'accepted'
  } catch (error) {
    const { code, message } = refusalIn(error)
    if (code === 'P7002') return 'no lease'
    if (code === 'P7011' || code === 'P7012') return 'unknown'
    const named = /^(?:[A-Z_]+: )?(p_[a-z_]+)(?: of item \d+)?: expected /.exec(message)?.[1] ?? message
    return { code, names: saidIn(error).includes(CANARY) ? 'ITS VALUE' : singular(named) }
  } finally {
    await client.query('ROLLBACK')
  }
}

/** Returns all text of an error. JSON leaves out its message. */
function saidIn(error: unknown): string {
  const refusal = refusalIn(error)
  return `${refusal.message} ${JSON.stringify(refusal)}`
}

function call(name: string, given: Arguments, values: readonly unknown[] = []): Promise<unknown> {
  const list = Object.entries(given).map(([argument, expression]) => `${argument} => ${expression}`)
  const { client } = connections.get(SUBJECTS[name]!.role)!
  return client.query(`SELECT * FROM ${quoteIdentifier(db.schema)}.${name}(${list.join(', ')})`, [...values])
}

function singular(argument: string): string {
  const regular = argument in LIMITS || WITHOUT_LIMITS.includes(argument) ? argument : argument.replace(/s$/, '')
  return IRREGULAR[argument] ?? regular
}

function limitsOf(argument: string): Limits {
  return LIMITS[singular(argument)] ?? { refused: {}, accepted: {} }
}

/** Reads from the catalog the functions that runtime roles may call. */
async function readSignatures(): Promise<typeof signatures> {
  const { rows } = await db.queryNoRole<{ name: string; arguments: Argument[] }>(
    `SELECT p.proname AS name, COALESCE((
       SELECT jsonb_agg(jsonb_build_object('name', p.proargnames[a.position], 'type', format_type(a.type, NULL))
         ORDER BY a.position)
       FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, position)), '[]') AS arguments
     FROM pg_proc p
     WHERE p.pronamespace = $1::regnamespace AND EXISTS (
       SELECT 1 FROM aclexplode(p.proacl) acl WHERE acl.grantee <> p.proowner AND acl.privilege_type = 'EXECUTE')
       -- The overload for the enum type passes its arguments on.
       AND 'outbox_attempt_state'::regtype <> ALL (p.proargtypes)`,
    [quoteIdentifier(db.schema)],
  )
  return new Map(rows.map((row) => [row.name, row.arguments]))
}

function wrappedKeys(): Arguments {
  return {
    p_data_key_ids: 'ARRAY[gen_random_uuid()]',
    p_wrapped_keys: `ARRAY[repeat('A', 80)]`,
    p_master_key_id: `'m'`,
  }
}

async function createKeyId(): Promise<string> {
  await db.queryNoRole(`SELECT create_api_key('a0key0to0revoke', sha256('s'), ARRAY['read'], 'alice')`)
  return `'a0key0to0revoke'`
}

async function createInstruction(): Promise<Arguments> {
  return {
    p_instruction_id: `'i'`,
    p_participant_id: `'p'`,
    p_idempotency_key: `'k'`,
    p_rail_type: `'r'`,
    p_payload: `'{"amountMinor": "1050"}'`,
    p_not_before: 'now()',
    p_ordered: 'false',
    p_trace_context: A_TRACE_CONTEXT,
    p_key_scope: `'key:shop'`,
    p_is_message: 'false',
  }
}

async function createBatch(): Promise<Arguments> {
  return {
    p_instruction_ids: `ARRAY['i']`,
    p_participant_ids: `ARRAY['p']`,
    p_idempotency_keys: `ARRAY['k']`,
    p_rail_types: `ARRAY['r']`,
    p_payloads: `ARRAY['{"amountMinor": "1050"}'::jsonb]`,
    p_not_before: 'ARRAY[now()]',
    p_ordered: 'ARRAY[false]',
    p_trace_contexts: `ARRAY[${A_TRACE_CONTEXT}]`,
    p_key_scope: `'key:shop'`,
    p_is_message: 'false',
  }
}

function buildBatchOf(count: number): Arguments {
  return {
    p_instruction_ids: `(SELECT array_agg('i-' || n) FROM generate_series(1, ${count}) n)`,
    p_participant_ids: `array_fill('p'::text, ARRAY[${count}])`,
    p_idempotency_keys: `array_fill('k'::text, ARRAY[${count}])`,
    p_rail_types: `array_fill('r'::text, ARRAY[${count}])`,
    p_payloads: `array_fill('{}'::jsonb, ARRAY[${count}])`,
    p_not_before: 'NULL',
    p_ordered: 'NULL',
    p_trace_contexts: 'NULL',
    p_key_scope: 'NULL',
    p_is_message: 'false',
  }
}

/** Returns the arguments of a valid call with its one item repeated. */
function repeated(name: string, count: number): Arguments {
  const lists = signatures.get(name)!.filter(({ type }) => type.endsWith('[]'))
  return Object.fromEntries(
    lists.map(({ name: argument, type }) => [
      argument,
      `array_fill((${soundArguments.get(name)![argument]}::${type})[1], ARRAY[${count}])`,
    ]),
  )
}

async function createLease(): Promise<Arguments> {
  const { outboxId, leaseToken } = await enqueueAndClaim(db)
  return { p_outbox_id: uuid(outboxId), p_lease_token: uuid(leaseToken), p_worker_id: `'${WORKER}'` }
}

async function createHeldLease(): Promise<Arguments> {
  const resource = `resource-${randomUUID()}`
  const executor = db.as('symphony_executor')
  const grant = await acquireLease(executor, { resource, owner: WORKER, durationMs: 3_600_000 })
  return { p_resource: `'${resource}'`, p_owner: `'${WORKER}'`, p_lease_id: uuid(grant!.leaseId) }
}

async function leases(): Promise<Arguments> {
  const { p_outbox_id: outboxId, p_lease_token: token, p_worker_id: worker } = await createLease()
  return { p_outbox_ids: `ARRAY[${outboxId}]`, p_lease_tokens: `ARRAY[${token}]`, p_worker_id: worker! }
}

function buildOutcome(state: string): Arguments {
  return {
    p_state: `'${state}'`,
    p_rail_reference: `'ref'`,
    p_rail_code: `'00'`,
    p_error_code: `'BUSY'`,
    p_error_message: `'try later'`,
    p_latency_ms: '1',
  }
}

function outcomes(state: string): Arguments {
  return {
    p_states: `ARRAY['${state}']`,
    p_rail_references: `ARRAY['ref']`,
    p_rail_codes: `ARRAY['00']`,
    p_error_codes: `ARRAY['BUSY']`,
    p_error_messages: `ARRAY['try later']`,
    p_latencies_ms: 'ARRAY[1]',
    p_retry_delays_seconds: 'ARRAY[60]',
    p_outcomes_unknown: 'ARRAY[false]',
    p_hold_reasons: `ARRAY['odd']`,
    p_actions: `ARRAY['not_sent']`,
  }
}

async function createMessage(messageId: string): Promise<Arguments> {
  return {
    p_source: `'s'`,
    p_message_id: `'${messageId}'`,
    p_topic: `'t'`,
    p_payload: `'{"a": 1}'`,
    p_not_before: 'now()',
  }
}

async function createSighting(): Promise<Arguments> {
  const messageId = randomUUID()
  await db
    .as('symphony_executor')
    .query(`SELECT * FROM ${db.qualify('record_inbox_sighting')}('sighted', $1)`, [messageId])
  return { p_source: `'sighted'`, p_message_id: `'${messageId}'` }
}

async function inboxClaims(): Promise<Arguments> {
  const { source, messageId, fence } = await enqueuedAndClaimed(db)
  return {
    p_sources: `ARRAY['${source}']`,
    p_message_ids: `ARRAY['${messageId}']`,
    p_fences: `ARRAY[${uuid(fence)}]`,
    p_worker_id: `'${WORKER}'`,
  }
}

function buildScheduledMessage(): Arguments {
  return { p_topic: `'t'`, p_payload: `'{}'`, p_participant_id: `'p'`, p_delivery: `'outbox'` }
}

function buildSchedulerClaim(): Arguments {
  return { p_batch_size: '10', p_worker_id: `'w'`, p_lease_seconds: '60', p_topics: `ARRAY['t']` }
}

async function timerClaims(): Promise<Arguments> {
  const { timerId, leaseToken } = await createClaimedTimer(db)
  const tokens = `ARRAY[${uuid(leaseToken)}]`
  return { p_timer_ids: `ARRAY[${uuid(timerId)}]`, p_lease_tokens: tokens, p_worker_id: `'${WORKER}'` }
}

async function runClaims(): Promise<Arguments> {
  const { runId, leaseToken } = await createClaimedJobRun(db)
  const tokens = `ARRAY[${uuid(leaseToken)}]`
  return { p_run_ids: `ARRAY[${uuid(runId)}]`, p_lease_tokens: tokens, p_worker_id: `'${WORKER}'` }
}

async function createJobName(): Promise<Arguments> {
  return { p_job_name: `'${await createJob(db)}'` }
}

async function createEpoch(): Promise<Arguments> {
  const { record } = await checkDispatchEpoch(db.as('symphony_executor'), WORKER)
  const { epochId, beatNo, beatAt } = record
  return { p_epoch_id: uuid(epochId), p_beat_no: `${beatNo}`, p_beat_at: `'${beatAt.toISOString()}'` }
}

async function createHeldItem(): Promise<string> {
  const { outboxId } = await enqueue(db)
  await placeOutboxHold(db.as('symphony_control'), outboxId, 'odd')
  return outboxId
}

async function createFailedItem(): Promise<string> {
  const item = await enqueueAndClaim(db)
  await complete(db, item, { state: 'FAILED', errorCode: 'REFUSED' })
  return item.outboxId
}

/** Creates a proposal by another person than the one who decides on it. */
async function createProposal(): Promise<string> {
  const role = proposer.database.as('symphony_control')
  const { proposalId } = await resolveOutboxHold(role, await createHeldItem(), 'FAILED', 'the rail never saw it')
  return proposalId!
}

function pause(rail: string): Arguments {
  return { p_kind: `'rail'`, p_name: `'${rail}'`, p_reason: `'maintenance'` }
}

function uuid(value: string): string {
  return `'${value}'::uuid`
}

/** Returns a payload of so many numbers, written as given. */
function numbers(written: string, count: number): string {
  return `('{"a": [' || repeat('${written}, ', ${count - 1}) || '${written}]}')::jsonb`
}

/** Returns a payload of so many nested objects, the outermost included. */
function nested(depth: number, innermost: 'object' | 'array' = 'object'): string {
  const end = innermost === 'object' ? '{}' : '[]'
  return `(repeat('{"a":', ${depth - 1}) || '${end}' || repeat('}', ${depth - 1}))::jsonb`
}

/** Returns a payload of so many bytes in jsonb output. */
function bytes(count: number): string {
  return `jsonb_build_object('a', rpad('${CANARY}', ${count - 9}, 'x'))`
}
