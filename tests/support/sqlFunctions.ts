import { randomUUID } from 'node:crypto'
import { quoteIdentifier } from '../../libs/db/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import {
  approveOutboxLimit,
  checkDispatchEpoch,
  pauseOutbox,
  placeOutboxHold,
  proposeOutboxLimit,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'
import { enqueuedAndClaimed } from './inboxMessages.js'
import { createContradiction, enqueue, enqueueAndClaim, WORKER } from './outboxItems.js'
import { createPerson, enqueueFailed, enqueuePaid, propose } from './outboxPeople.js'
import { findingsOf, reconcileEntries } from './reconciliation.js'
import { createClaimedJobRun, createClaimedTimer, createJob } from './scheduled.js'

/**
 * Facts about every SQL function of the schema, written by hand. Tests compare them with the catalog of PostgreSQL, so
 * that a function without an entry, an entry without a function and a wrong grant fail.
 */

export const ROLES = ['control', 'ingest', 'executor', 'readonly', 'auditor', 'auth'] as const
export type Role = (typeof ROLES)[number]

/** SQL expressions by argument name. */
export type Arguments = Readonly<Record<string, string>>

export type Volatility = 'immutable' | 'stable' | 'volatile'

/** A function that runtime roles call. */
export interface PublicFunction {
  /** Roles that may call the function. Tests of its arguments use the first. */
  readonly callers: readonly Role[]
  /** @default volatile */
  readonly volatility?: Volatility
  /** Number of functions with this name. `@default 1` */
  readonly overloads?: number
  /** Creates the items of a valid call. Returns all its arguments. */
  readonly sound: (db: TestDatabase) => Arguments | Promise<Arguments>
  /** Arguments for which NULL has a meaning. All others refuse it. */
  readonly optional?: readonly string[]
  /** List arguments whose elements may be NULL. */
  readonly optionalElements?: readonly string[]
  /** List arguments that may be empty. */
  readonly emptyLists?: readonly string[]
  /** SQLSTATE for a well-formed key of an unknown object. */
  readonly unknown?: string
  /** Result of an executor's call about an item that does not exist: a SQLSTATE, a verdict or the number of rows. */
  readonly forged?: string
}

const A_TRACE_CONTEXT = `'00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=1'`

const OUTCOME = ['p_rail_reference', 'p_rail_code', 'p_error_code', 'p_error_message', 'p_latency_ms']
const OUTCOMES = ['p_rail_references', 'p_rail_codes', 'p_error_codes', 'p_error_messages', 'p_latencies_ms']
const OUTCOMES_ASKED = [...OUTCOMES, 'p_retry_delays_seconds', 'p_outcomes_unknown', 'p_hold_reasons', 'p_actions']

const ONE_BY_ONE = {
  enqueue_payment_outbox: {
    callers: ['ingest'],
    sound: buildInstruction,
    optional: ['p_not_before', 'p_trace_context', 'p_key_scope', 'p_outcome_topic', 'p_replaces'],
  },
  enqueue_payment_outbox_batch: {
    callers: ['ingest'],
    sound: buildBatch,
    optional: ['p_not_before', 'p_ordered', 'p_trace_contexts', 'p_key_scope', 'p_outcome_topic', 'p_replaces'],
    optionalElements: ['p_not_before', 'p_trace_contexts', 'p_outcome_topic', 'p_replaces'],
  },
  propose_payment_outbox: {
    callers: ['ingest'],
    sound: () => {
      const unused = new Set(['p_not_before', 'p_ordered', 'p_trace_context', 'p_is_message'])
      const used = Object.entries(buildInstruction()).filter(([name]) => !unused.has(name))
      return { ...Object.fromEntries(used), p_reason: `'entered by hand'` }
    },
    optional: ['p_key_scope', 'p_replaces', 'p_outcome_topic'],
  },
  schedule_timer: {
    callers: ['ingest'],
    sound: () => ({ ...buildScheduledMessage(), p_due_at: 'now()', p_timer_id: 'gen_random_uuid()' }),
    optional: ['p_participant_id', 'p_timer_id'],
  },
  cancel_timer: {
    callers: ['ingest', 'control'],
    sound: async (db) => ({ p_timer_id: uuid((await createClaimedTimer(db)).timerId) }),
  },
  ensure_subject_keys: {
    callers: ['ingest'],
    sound: () => ({ p_subjects: `ARRAY['s']`, ...wrappedKeys() }),
  },
  read_subject_keys: {
    callers: ['executor', 'control'],
    volatility: 'stable',
    sound: () => ({ p_data_key_ids: 'ARRAY[gen_random_uuid()]' }),
  },
  master_keys_in_use: { callers: ['executor', 'control'], volatility: 'stable', forged: '0 rows', sound: () => ({}) },
  rewrap_subject_keys: {
    callers: ['control'],
    sound: () => ({ ...wrappedKeys(), p_previous_master_key_id: `'m'` }),
  },
  destroy_subject_key: { callers: ['control'], sound: () => ({ p_subject: `'s'`, p_reason: `'asked to'` }) },
  claim_outbox_batch: {
    callers: ['executor'],
    forged: '0 rows',
    sound: async (db) => ({
      p_batch_size: '1',
      p_worker_id: `'w'`,
      p_lease_seconds: '60',
      p_rails: `ARRAY['${(await enqueue(db)).railType}']`,
      p_marked_rails: `ARRAY['r']`,
      p_report_unleased: 'true',
      p_epoch_id: (await createEpoch(db))['p_epoch_id']!,
      p_is_message: 'false',
    }),
    optional: ['p_rails', 'p_marked_rails', 'p_epoch_id', 'p_is_message'],
  },
  renew_outbox_lease: {
    callers: ['executor'],
    forged: 'P7002',
    sound: async (db) => ({ ...(await createLease(db)), p_lease_seconds: '60' }),
  },
  renew_outbox_leases: {
    callers: ['executor'],
    forged: 'renewed: false',
    sound: async (db) => ({ ...(await leases(db)), p_lease_seconds: '60' }),
  },
  release_outbox_lease: { callers: ['executor'], forged: 'P7002', sound: createLease },
  release_outbox_leases: { callers: ['executor'], forged: 'released: false', sound: leases },
  begin_outbox_dispatch: { callers: ['executor'], forged: 'P7002', sound: createLease },
  hold_leased_outbox_item: {
    callers: ['executor'],
    forged: 'P7002',
    sound: async (db) => ({ ...(await createLease(db)), p_reason: `'odd'` }),
  },
  complete_outbox_attempt: {
    callers: ['executor'],
    forged: 'P7002',
    overloads: 2,
    sound: async (db) => ({
      ...(await createLease(db)),
      ...buildOutcome('RETRYABLE'),
      p_retry_delay_seconds: '60',
      p_outcome_unknown: 'false',
      p_hold_reason: `'odd'`,
      p_action: `'not_sent'`,
    }),
    optional: [...OUTCOME, 'p_retry_delay_seconds', 'p_outcome_unknown', 'p_hold_reason', 'p_action'],
  },
  complete_outbox_attempts: {
    callers: ['executor'],
    forged: 'verdict: LEASE_LOST',
    sound: async (db) => ({ ...(await leases(db)), ...outcomes('RETRYABLE'), p_is_message: 'false' }),
    optional: [...OUTCOMES_ASKED, 'p_is_message'],
    optionalElements: OUTCOMES_ASKED,
  },
  record_late_outcome: {
    callers: ['executor'],
    forged: 'P7002',
    sound: async (db) => ({ ...(await createLease(db)), ...buildOutcome('DISPATCHED') }),
    optional: OUTCOME,
  },
  repair_expired_leases: {
    callers: ['executor'],
    forged: '0 rows',
    sound: () => ({ p_batch_size: '10', p_worker_id: `'w'`, p_report_failures: 'true' }),
  },
  seal_ledger_block: { callers: ['executor'], sound: () => ({ p_rows_max: '10', p_interval_ms: '0' }) },
  project_ledger_block: { callers: ['executor'], forged: '0 rows', sound: () => ({}) },
  purge_ledger_projection: {
    callers: ['executor'],
    sound: () => ({ p_retention_seconds: '60', p_batch_size: '10' }),
  },
  store_search_destinations: {
    callers: ['control'],
    sound: () => ({
      p_block_no: '1',
      p_hash_key: `'0123456789abcdef'`,
      p_outbox_ids: 'ARRAY[gen_random_uuid()]',
      p_destination_hmacs: `ARRAY[sha256('')]`,
    }),
    emptyLists: ['p_outbox_ids', 'p_destination_hmacs'],
  },
  rebuild_ledger_projection: { callers: ['control'], sound: () => ({}) },
  verify_ledger_block: {
    callers: ['executor'],
    forged: '0 rows',
    sound: () => ({ p_rows_per_second: '1000', p_pass_seconds: '60' }),
  },
  outbox_backoff: {
    callers: ['executor'],
    volatility: 'immutable',
    forged: '1 rows',
    sound: () => ({ p_attempt_no: '1', p_outbox_id: 'gen_random_uuid()', p_longest_seconds: '300' }),
  },
  next_outbox_event: {
    callers: ['executor'],
    volatility: 'stable',
    forged: '1 rows',
    sound: () => ({ p_rails: `ARRAY['r']`, p_is_message: 'true' }),
    optional: ['p_rails', 'p_is_message'],
  },
  heartbeat_outbox_worker: {
    callers: ['executor'],
    forged: '1 rows',
    sound: () => ({ p_worker_id: `'w'`, p_detail: `'{"rails": [{"railType": "r", "breaker": "open"}]}'` }),
  },
  deregister_outbox_worker: {
    callers: ['executor'],
    forged: '1 rows',
    sound: () => ({ p_worker_id: `'w'`, p_detail: `'{}'` }),
  },
  ledger_sealing_status: { callers: ['auditor', 'control', 'readonly'], sound: () => ({}) },
  declare_outbox_rail: {
    callers: ['executor', 'control'],
    sound: () => ({
      p_rail_type: `'r'`,
      p_money: 'true',
      p_fields: `'{"/memo": "masked"}'`,
      p_declared_by: `'w'`,
      p_serving: 'true',
    }),
  },
  check_dispatch_epoch: {
    callers: ['executor'],
    forged: '1 rows',
    sound: async (db) => ({ p_worker_id: `'w'`, ...(await createEpoch(db)) }),
  },
  due_jobs: { callers: ['executor'], forged: '0 rows', sound: () => ({ p_batch_size: '10' }) },
  create_job_runs: {
    callers: ['executor'],
    sound: async (db) => ({
      p_job_names: `ARRAY['${await createJob(db)}']`,
      p_revisions: 'ARRAY[1]',
      p_next_due_at: 'ARRAY[now()]',
      p_scheduled_for: 'ARRAY[now()]',
    }),
    optionalElements: ['p_scheduled_for'],
  },
  postpone_job: {
    callers: ['executor'],
    sound: async (db) => ({ p_job_name: `'${await createJob(db)}'`, p_revision: '1', p_error_message: `'unreadable'` }),
  },
  next_scheduler_event: {
    callers: ['executor'],
    volatility: 'stable',
    forged: '1 rows',
    sound: () => ({ p_outbox_only: 'false' }),
  },
  enqueue_due_timers: { callers: ['executor'], forged: '0 rows', sound: () => ({ p_batch_size: '10' }) },
  claim_timers: { callers: ['executor'], forged: '0 rows', sound: () => buildSchedulerClaim(), optional: ['p_topics'] },
  ack_timers: { callers: ['executor'], sound: timerClaims },
  abandon_timers: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await timerClaims(db)), p_error_message: `'busy'`, p_retry_delay_seconds: '60' }),
    optional: ['p_error_message'],
  },
  fail_timers: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await timerClaims(db)), p_error_message: `'busy'` }),
    optional: ['p_error_message'],
  },
  purge_finished_timers: { callers: ['executor'], sound: () => ({ p_retention_seconds: '60', p_batch_size: '10' }) },
  enqueue_due_job_runs: { callers: ['executor'], forged: '0 rows', sound: () => ({ p_batch_size: '10' }) },
  claim_job_runs: {
    callers: ['executor'],
    forged: '0 rows',
    sound: () => buildSchedulerClaim(),
    optional: ['p_topics'],
  },
  ack_job_runs: { callers: ['executor'], sound: runClaims },
  abandon_job_runs: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await runClaims(db)), p_error_message: `'busy'`, p_retry_delay_seconds: '60' }),
    optional: ['p_error_message'],
  },
  fail_job_runs: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await runClaims(db)), p_error_message: `'busy'` }),
    optional: ['p_error_message'],
  },
  purge_finished_job_runs: { callers: ['executor'], sound: () => ({ p_retention_seconds: '60', p_batch_size: '10' }) },
  acquire_lease: {
    callers: ['executor'],
    sound: () => ({ p_resource: `'r'`, p_owner: `'o'`, p_duration_ms: '60000', p_context: `'{}'` }),
  },
  renew_lease: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await createHeldLease(db)), p_duration_ms: '60000' }),
  },
  release_lease: { callers: ['executor'], sound: createHeldLease },
  purge_idle_leases: { callers: ['executor'], sound: () => ({ p_idle_seconds: '3600', p_batch_size: '10' }) },
  place_outbox_hold: {
    callers: ['control'],
    sound: async (db) => ({ p_outbox_id: uuid((await enqueue(db)).outboxId), p_reason: `'odd'` }),
  },
  note_outbox_item: {
    callers: ['control'],
    sound: async (db) => ({
      p_outbox_id: uuid((await enqueue(db)).outboxId),
      p_note: `'asked the bank'`,
      p_assignee: `'bob'`,
    }),
    optional: ['p_assignee'],
  },
  resolve_outbox_hold: {
    callers: ['control'],
    sound: async (db) => ({
      p_outbox_id: uuid(await createHeldItem(db)),
      p_decision: `'DISPATCHED'`,
      p_reason: `'checked'`,
      p_rail_reference: `'ref'`,
    }),
  },
  cancel_outbox_item: {
    // `control` comes first, because tests call as the first role. A call as `ingest` needs a gateway login with an
    // actor.
    callers: ['control', 'ingest'],
    sound: async (db) => ({ p_outbox_id: uuid((await enqueue(db)).outboxId), p_reason: `'not needed'` }),
  },
  cancel_outbox_instruction: {
    callers: ['control', 'ingest'],
    sound: async (db) => {
      const { instructionId, idempotencyKey } = await enqueue(db)
      const key = { p_instruction_id: `'${instructionId}'`, p_idempotency_key: `'${idempotencyKey}'` }
      return { ...key, p_reason: `'not needed'` }
    },
    unknown: '22023',
  },
  redrive_outbox_item: {
    callers: ['control'],
    sound: async (db) => ({ p_outbox_id: uuid((await enqueueFailed(db)).outboxId), p_reason: `'again'` }),
  },
  approve_outbox_proposal: {
    callers: ['control'],
    sound: async (db) => ({ p_proposal_id: uuid(await createProposal(db)) }),
  },
  withdraw_outbox_proposal: {
    callers: ['control'],
    sound: async (db) => ({ p_proposal_id: uuid(await createProposal(db)), p_reason: `'mistaken'` }),
  },
  propose_outbox_limit: {
    callers: ['control'],
    sound: () => ({
      p_limit_name: `'l'`,
      p_kind: `'amount'`,
      p_limit: '250000.00',
      p_rail_type: `'r'`,
      p_participant_id: 'NULL',
      p_limit_currency: `'EUR'`,
      p_window_seconds: '86400',
      p_approvals: 'NULL',
      p_reason: `'as agreed'`,
    }),
    optional: ['p_participant_id', 'p_approvals'],
  },
  propose_outbox_limit_removal: {
    callers: ['control'],
    sound: async (db) => ({ p_limit_in_force: `'${await createLimit(db)}'`, p_reason: `'as agreed'` }),
  },
  approve_outbox_limit: {
    callers: ['control'],
    sound: async (db) => ({ p_proposal_id: uuid(await createLimitProposal(db)) }),
  },
  withdraw_outbox_limit: {
    callers: ['control'],
    sound: async (db) => ({ p_proposal_id: uuid(await createLimitProposal(db)), p_reason: `'mistaken'` }),
  },
  review_outbox_contradiction: {
    callers: ['control'],
    sound: async (db) => ({ p_event_id: uuid(await createContradiction(db)), p_reason: `'compared'` }),
  },
  stage_reconciliation_entries: {
    callers: ['control'],
    sound: () => ({
      p_upload_id: 'NULL::uuid',
      p_entry_kinds: `ARRAY['payout']`,
      p_accounts: `ARRAY['DE89370400440532013000']`,
      p_bank_references: `ARRAY['B-1']`,
      p_shown_references: `ARRAY['E-1']`,
      p_candidates: `ARRAY['${randomUUID()}']`,
      p_entry_amounts: 'ARRAY[10.50]',
      p_entry_currencies: `ARRAY['EUR']`,
      p_booked_on: 'ARRAY[current_date]',
      p_valued_on: 'ARRAY[current_date]',
      p_return_codes: `ARRAY['AC04']`,
      p_positions: 'ARRAY[1]::bigint[]',
    }),
    optional: ['p_upload_id'],
    optionalElements: [
      'p_accounts',
      'p_bank_references',
      'p_shown_references',
      'p_candidates',
      'p_entry_amounts',
      'p_entry_currencies',
      'p_booked_on',
      'p_valued_on',
      'p_return_codes',
    ],
  },
  discard_reconciliation_upload: {
    callers: ['control'],
    sound: () => ({ p_upload_id: uuid(randomUUID()) }),
  },
  unreadable_reconciliation_payments: {
    callers: ['control'],
    volatility: 'stable',
    sound: () => ({
      p_upload_id: uuid(randomUUID()),
      p_rail_type: `'r'`,
      p_after: 'NULL::uuid',
      p_max_rows: '100',
    }),
    optional: ['p_after'],
  },
  annotate_reconciliation_payments: {
    callers: ['control'],
    sound: () => ({
      p_upload_id: uuid(randomUUID()),
      p_outbox_ids: `ARRAY[${uuid(randomUUID())}]`,
      p_entry_amounts: 'ARRAY[10.50]',
      p_entry_currencies: `ARRAY['EUR']`,
      p_covered: 'ARRAY[true]',
    }),
    optionalElements: ['p_entry_amounts', 'p_entry_currencies'],
  },
  reconciliation_window: {
    callers: ['control'],
    volatility: 'stable',
    sound: () => ({
      p_rail_type: `'r'`,
      p_accounts: `ARRAY['DE89370400440532013000']`,
      p_period_from: `now() - interval '1 day'`,
      p_period_to: 'now()',
      p_settlement_days: '1',
    }),
    emptyLists: ['p_accounts'],
  },
  reconciliation_digests: {
    callers: ['control', 'auditor'],
    volatility: 'stable',
    sound: () => ({ p_run_id: uuid(randomUUID()) }),
  },
  finish_reconciliation: {
    callers: ['control'],
    sound: () => ({
      p_upload_id: uuid(randomUUID()),
      p_entries: '0',
      p_rail_type: `'r'`,
      p_format: `'camt053'`,
      p_file_hash: `sha256('a file')`,
      p_statement_ids: `ARRAY['S-1']`,
      p_accounts: `ARRAY['DE89370400440532013000']`,
      p_period_from: `now() - interval '1 day'`,
      p_period_to: 'now()',
      p_settlement_days: '1',
      p_keep_unknown: 'false',
      p_dry_run: 'false',
      p_reading_hash: `sha256('options')`,
      p_covered_from: `now() - interval '2 days'`,
    }),
    optional: ['p_covered_from'],
    emptyLists: ['p_statement_ids', 'p_accounts'],
  },
  close_reconciliation_finding: {
    callers: ['control'],
    sound: async (db) => ({ p_finding_id: uuid(await createFinding(db)), p_reason: `'the bank corrected it'` }),
    unknown: '22023',
  },
  record_outbox_return: {
    callers: ['control', 'executor'],
    forged: '22023',
    sound: async (db) => ({
      p_outbox_id: uuid((await enqueuePaid(db)).outboxId),
      p_amount: '10.50',
      p_currency: `'EUR'`,
      p_code: `'AC04'`,
      p_reference: `'RT-17'`,
      p_occurred_at: 'now()',
    }),
    optional: ['p_occurred_at'],
  },
  record_ledger_verification: {
    callers: ['auditor'],
    sound: () => ({ p_rows_checked: '10', p_break_count: '1' }),
  },
  pause_outbox: { callers: ['control'], sound: () => pause('rail-to-pause') },
  resume_outbox: {
    callers: ['control'],
    sound: async (db) => {
      await pauseOutbox(db.as('symphony_control'), 'rail', 'rail-to-resume', 'maintenance')
      return pause('rail-to-resume')
    },
  },
  freeze_dispatch: { callers: ['control'], sound: () => ({ p_reason: `'restored'` }) },
  lift_dispatch_freeze: { callers: ['control'], sound: () => ({ p_reason: `'compared'` }) },
  set_participant_outbox_policy: {
    callers: ['control'],
    sound: () => ({ p_participant_id: `'p'`, p_on_ordered_failure: `'halt'` }),
  },
  unserved_outbox_rails: { callers: ['ingest'], volatility: 'stable', sound: () => ({ p_rails: `'{rail}'` }) },
  enqueue_inbox_message: { callers: ['ingest'], sound: () => buildMessage('new'), optional: ['p_not_before'] },
  enqueue_inbox_messages: {
    callers: ['ingest'],
    sound: () => ({
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
    callers: ['executor'],
    sound: () => ({ p_source: `'s'`, p_message_id: `'m'`, p_topic: `'t'`, p_payload: `'{"a": 1}'` }),
  },
  mark_inbox_processing: { callers: ['executor'], sound: createSighting, unknown: 'P7011' },
  mark_inbox_processed: {
    callers: ['executor'],
    sound: async (db) => {
      const key = await createSighting(db)
      await db
        .as('symphony_executor')
        .query(`SELECT ${db.qualify('mark_inbox_processing')}(${key['p_source']}, ${key['p_message_id']})`)
      return key
    },
    unknown: 'P7011',
  },
  mark_inbox_dead: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await createSighting(db)), p_error: `'poison'` }),
    unknown: 'P7011',
  },
  claim_inbox_batch: {
    callers: ['executor'],
    forged: '0 rows',
    sound: () => ({ p_batch_size: '1', p_worker_id: `'w'`, p_lease_seconds: '60', p_attempts_max: '20' }),
  },
  ack_inbox_messages: { callers: ['executor'], sound: inboxClaims },
  abandon_inbox_messages: {
    callers: ['executor'],
    sound: async (db) => ({
      ...(await inboxClaims(db)),
      p_errors: `ARRAY['odd']`,
      p_retry_delays_seconds: 'ARRAY[60]',
      p_costs_attempt: 'true',
    }),
    optional: ['p_errors', 'p_retry_delays_seconds'],
    optionalElements: ['p_errors', 'p_retry_delays_seconds'],
  },
  fail_inbox_messages: {
    callers: ['executor'],
    sound: async (db) => ({ ...(await inboxClaims(db)), p_errors: `ARRAY['odd']` }),
    optional: ['p_errors'],
    optionalElements: ['p_errors'],
  },
  next_inbox_event: { callers: ['executor'], volatility: 'stable', forged: '1 rows', sound: () => ({}) },
  purge_inbox_messages: { callers: ['executor'], sound: () => ({ p_keep_seconds: '60', p_batch_size: '10' }) },
  revive_inbox_message: {
    callers: ['control'],
    sound: async (db) => {
      const key = await createSighting(db)
      await db
        .as('symphony_executor')
        .query(`SELECT ${db.qualify('mark_inbox_dead')}(${key['p_source']}, ${key['p_message_id']}, 'poison')`)
      return { ...key, p_reason: `'repaired'` }
    },
    unknown: 'P7011',
  },
  create_or_update_job: {
    callers: ['control'],
    sound: () => ({
      ...buildScheduledMessage(),
      p_job_name: `'j'`,
      p_cron: `'@daily'`,
      p_time_zone: `'UTC'`,
      p_next_due_at: 'now()',
      p_missed_runs: `'once'`,
    }),
    optional: ['p_participant_id'],
  },
  pause_job: { callers: ['control'], sound: createJobName, unknown: 'P7012' },
  resume_job: {
    callers: ['control'],
    sound: async (db) => ({ ...(await createJobName(db)), p_revision: '1', p_next_due_at: 'now()' }),
    unknown: 'P7012',
  },
  trigger_job: { callers: ['control'], sound: createJobName, unknown: 'P7012' },
  delete_job: { callers: ['control'], sound: createJobName },
  create_api_key: {
    callers: ['control'],
    sound: () => ({
      p_key_id: `'soundkey'`,
      p_secret_hash: `sha256('s')`,
      p_scopes: `ARRAY['read']`,
      p_person: `'alice'`,
      p_participants: `ARRAY['p']`,
      p_expires_at: `now() + interval '1 day'`,
    }),
    optional: ['p_participants', 'p_expires_at'],
  },
  revoke_api_key: { callers: ['control'], sound: async (db) => ({ p_key_id: await createKeyId(db) }) },
  is_actor_gateway: {
    callers: ['control'],
    volatility: 'stable',
    sound: () => ({ p_without_key: 'true' }),
    optional: ['p_without_key'],
  },
  authenticate_api_key: {
    callers: ['auth'],
    sound: () => ({ p_key_id: `'soundkey'`, p_secret_hash: `sha256('s')` }),
  },
  create_browser_session: {
    callers: ['auth'],
    sound: () => ({
      p_key_id: `'soundkey'`,
      p_secret_hash: `sha256('s')`,
      p_scopes: `ARRAY['read']`,
      p_person: `'alice'`,
      p_issuer: `'https://login.example.com'`,
      p_session_seconds: '60',
      p_participants: `ARRAY['p']`,
    }),
    optional: ['p_participants'],
  },
  authenticate_browser_session: {
    callers: ['auth'],
    volatility: 'stable',
    sound: () => ({ p_key_id: `'soundkey'`, p_secret_hash: `sha256('s')` }),
  },
  end_browser_session: {
    callers: ['auth'],
    sound: () => ({ p_key_id: `'soundkey'`, p_secret_hash: `sha256('s')` }),
  },
  revoke_browser_session: { callers: ['control'], sound: async (db) => ({ p_session_id: await createSessionId(db) }) },
} satisfies Readonly<Record<string, PublicFunction>>

export const PUBLIC_FUNCTIONS: Readonly<Record<string, PublicFunction>> = {
  ...ONE_BY_ONE,
  // Functions that return one packed row take the same arguments as their forms with one row per item.
  enqueue_outbox_packed: ONE_BY_ONE.enqueue_payment_outbox_batch,
  claim_outbox_packed: { ...ONE_BY_ONE.claim_outbox_batch, forged: '1 rows' },
  complete_outbox_packed: { ...ONE_BY_ONE.complete_outbox_attempts, forged: '1 rows' },
}

/** Functions that only other functions call, as their owner. */
const INTERNAL_FUNCTIONS: Readonly<Record<string, Volatility>> = {
  add_entry_finding: 'volatile',
  add_payment_findings: 'volatile',
  admit_outbox_items: 'volatile',
  advance_outbox_streams: 'volatile',
  api_scope_role: 'immutable',
  append_outbox_events: 'volatile',
  append_outbox_scope_event: 'volatile',
  append_trail_events: 'volatile',
  apply_outbox_decision: 'volatile',
  apply_outbox_limits: 'volatile',
  begin_dispatch_epoch: 'volatile',
  bump_participant_outbox_seq: 'volatile',
  cancel_unsent_outbox_item: 'volatile',
  check_api_key: 'volatile',
  check_api_key_parts: 'volatile',
  check_bank_texts: 'volatile',
  check_id: 'volatile',
  check_inbox_claims: 'volatile',
  check_inbox_errors: 'volatile',
  check_inbox_key: 'volatile',
  check_inbox_messages: 'volatile',
  check_job_runs: 'volatile',
  check_lease_duration: 'volatile',
  check_number: 'volatile',
  check_outbox_items: 'volatile',
  check_outbox_leases: 'volatile',
  check_outbox_outcomes: 'volatile',
  check_outbox_pause: 'volatile',
  check_outbox_replacements: 'volatile',
  check_scheduled_message: 'volatile',
  check_scheduler_leases: 'volatile',
  check_text: 'volatile',
  check_time: 'volatile',
  check_wrapped_keys: 'volatile',
  claim_tasks: 'volatile',
  claimable_outbox_rails: 'stable',
  compare_reconciliation: 'volatile',
  complete_dispatched_outbox_items: 'volatile',
  contradicting_late_success: 'immutable',
  count_outbox_queue: 'volatile',
  count_open_brackets: 'immutable',
  count_outbox_limit: 'volatile',
  count_released_outbox_item: 'volatile',
  create_outbox_redrive: 'volatile',
  current_dispatch_epoch: 'volatile',
  dead_letter_inbox_messages: 'volatile',
  describe_reconciled_entry: 'stable',
  describe_reconciled_payment: 'stable',
  describe_reconciliation_run: 'stable',
  end_outbox_item: 'volatile',
  end_task_claims: 'volatile',
  enqueue_due_tasks: 'volatile',
  enqueue_scheduled_messages: 'volatile',
  epoch_micros: 'stable',
  expire_outbox_leases: 'volatile',
  find_new_outbox_items: 'volatile',
  freeze_dispatch_epoch: 'volatile',
  has_inexact_number: 'immutable',
  hold_outbox_redrives: 'volatile',
  inbox_content_hash: 'stable',
  is_claimable_item: 'immutable',
  is_dispatch_open: 'volatile',
  is_double_number: 'immutable',
  is_id: 'immutable',
  is_id_list: 'stable',
  is_inbox_id: 'immutable',
  is_outbox_paused: 'stable',
  is_person_name: 'immutable',
  is_plain_payload_text: 'immutable',
  is_replicated_synchronously: 'stable',
  is_short_text: 'immutable',
  judge_reconciled_payments: 'stable',
  late_paid_item: 'stable',
  latency_range: 'immutable',
  lock_due_outbox_rows: 'volatile',
  lock_free_outbox_items: 'volatile',
  lock_held_outbox_item: 'volatile',
  lock_inbox_message: 'volatile',
  lock_live_inbox_claims: 'volatile',
  lock_live_lease: 'volatile',
  lock_live_outbox_leases: 'volatile',
  lock_open_limit_proposal: 'volatile',
  lock_open_outbox_proposal: 'volatile',
  lock_outbox_item: 'volatile',
  lock_outbox_payment: 'volatile',
  lock_redrivable_outbox_item: 'volatile',
  lock_replaced_outbox_payments: 'volatile',
  mark_frozen_outbox_items: 'volatile',
  mark_inbox_message: 'volatile',
  mark_next_blocked_item: 'volatile',
  missing_reconciled_payments: 'stable',
  new_reconciliation_run: 'volatile',
  notify_outbox_pending: 'volatile',
  outbox_actor: 'stable',
  outbox_actor_of_key: 'stable',
  outbox_attempt_ceiling: 'immutable',
  outbox_base_key: 'immutable',
  outbox_block_entries: 'volatile',
  outbox_block_hash: 'stable',
  outbox_block_root: 'immutable',
  outbox_block_rows: 'immutable',
  outbox_content_hash: 'stable',
  outbox_evidence: 'stable',
  outbox_hold_detail: 'stable',
  outbox_hold_placed: 'stable',
  outbox_limits_of: 'stable',
  outbox_not_replaceable: 'stable',
  outbox_payment_items: 'stable',
  outbox_replacement: 'stable',
  payload_amount: 'immutable',
  payload_currency: 'immutable',
  payload_defect: 'stable',
  person_key: 'immutable',
  place_outbox_items: 'volatile',
  project_outbox_search: 'volatile',
  project_outbox_series: 'volatile',
  propose_outbox_decision: 'volatile',
  propose_outbox_limit_change: 'volatile',
  propose_paid_payment: 'volatile',
  prune_outbox_limit_usage: 'volatile',
  prune_reconciliation_uploads: 'volatile',
  purge_finished_tasks: 'volatile',
  raise_already_terminal: 'volatile',
  raise_dispatch_frozen: 'volatile',
  raise_idempotency_conflict: 'volatile',
  raise_lease_lost: 'volatile',
  raise_not_cancellable: 'volatile',
  raise_unknown_job: 'volatile',
  record_breaker_changes: 'volatile',
  record_completion_events: 'volatile',
  record_deployment: 'volatile',
  record_full_trail: 'volatile',
  record_outbox_contradictions: 'volatile',
  redrive_position: 'volatile',
  refuse_argument: 'volatile',
  refuse_mutation: 'volatile',
  release_expired_tasks: 'volatile',
  release_tasks: 'volatile',
  report_outbox_items: 'volatile',
  require_cancellable_item: 'volatile',
  require_key_scope: 'stable',
  require_no_open_proposal: 'volatile',
  require_operator_arguments: 'volatile',
  require_read_committed: 'stable',
  require_returnable_outbox_item: 'volatile',
  require_second_person: 'volatile',
  require_utf8_session: 'stable',
  reported_breakers: 'immutable',
  reserve_outbox_numbers: 'volatile',
  return_reversed_payment: 'volatile',
  roll_up_outbox_tallies: 'volatile',
  send_outcome_messages: 'volatile',
  server_identity: 'volatile',
  set_actor_gateway: 'volatile',
  settle_ordered_heads: 'volatile',
  shows_long_number: 'immutable',
  small_payload_text: 'stable',
  sorted_accounts: 'immutable',
  trace_context_or_null: 'immutable',
  upsert_inbox_message: 'volatile',
  uuid_v7: 'volatile',
  uuid_v7_floor: 'stable',
  verify_blocked_outbox_items: 'volatile',
  wake_inbox_workers: 'volatile',
  wake_outbox_workers: 'volatile',
  wake_schedulers: 'volatile',
}

/** Volatility of every function, public and internal. */
export const VOLATILITIES: Readonly<Record<string, Volatility>> = {
  ...INTERNAL_FUNCTIONS,
  ...Object.fromEntries(
    Object.entries(PUBLIC_FUNCTIONS).map(([name, { volatility = 'volatile' }]) => [name, volatility]),
  ),
}

/** Returns the roles that may call the function. An internal function has none. */
export function callersOf(name: string): readonly Role[] {
  return PUBLIC_FUNCTIONS[name]?.callers ?? []
}

/** Creates the items for one valid call of each function. Returns the arguments of these calls by function name. */
export async function soundArguments(db: TestDatabase): Promise<ReadonlyMap<string, Arguments>> {
  const sound = new Map<string, Arguments>()
  for (const [name, subject] of Object.entries(PUBLIC_FUNCTIONS)) sound.set(name, await subject.sound(db))
  return sound
}

/** Returns a statement that calls the function with named arguments. */
export function callStatement({ schema }: { readonly schema: string }, name: string, given: Arguments): string {
  const list = Object.entries(given).map(([argument, expression]) => `${argument} => ${expression}`)
  return `SELECT * FROM ${quoteIdentifier(schema)}.${name}(${list.join(', ')})`
}

function wrappedKeys(): Arguments {
  return {
    p_data_key_ids: 'ARRAY[gen_random_uuid()]',
    p_wrapped_keys: `ARRAY[repeat('A', 80)]`,
    p_master_key_id: `'m'`,
  }
}

async function createKeyId(db: TestDatabase): Promise<string> {
  const keyId = `'${randomUUID().replaceAll('-', '')}'`
  await db.queryNoRole(`SELECT create_api_key(${keyId}, sha256('s'), ARRAY['read'], 'alice')`)
  return keyId
}

async function createSessionId(db: TestDatabase): Promise<string> {
  const sessionId = `'${randomUUID().replaceAll('-', '')}'`
  await db.queryNoRole(
    `SELECT create_browser_session(${sessionId}, sha256('s'), ARRAY['read'], 'alice', 'https://login.example.com', 60)`,
  )
  return sessionId
}

function buildInstruction(): Arguments {
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
    p_outcome_topic: `'orders'`,
    p_replaces: 'NULL::uuid',
  }
}

function buildBatch(): Arguments {
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
    p_outcome_topic: `ARRAY['orders']`,
    p_replaces: 'ARRAY[NULL::uuid]',
  }
}

async function createLease(db: TestDatabase): Promise<Arguments> {
  const { outboxId, leaseToken } = await enqueueAndClaim(db)
  return { p_outbox_id: uuid(outboxId), p_lease_token: uuid(leaseToken), p_worker_id: `'${WORKER}'` }
}

async function createHeldLease(db: TestDatabase): Promise<Arguments> {
  const resource = `resource-${randomUUID()}`
  const executor = db.as('symphony_executor')
  const grant = await acquireLease(executor, { resource, owner: WORKER, durationMs: 3_600_000 })
  return { p_resource: `'${resource}'`, p_owner: `'${WORKER}'`, p_lease_id: uuid(grant!.leaseId) }
}

async function leases(db: TestDatabase): Promise<Arguments> {
  const { p_outbox_id: outboxId, p_lease_token: token, p_worker_id: worker } = await createLease(db)
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

function buildMessage(messageId: string): Arguments {
  return {
    p_source: `'s'`,
    p_message_id: `'${messageId}'`,
    p_topic: `'t'`,
    p_payload: `'{"a": 1}'`,
    p_not_before: 'now()',
  }
}

async function createSighting(db: TestDatabase): Promise<Arguments> {
  const messageId = randomUUID()
  await db
    .as('symphony_executor')
    .query(`SELECT * FROM ${db.qualify('record_inbox_sighting')}('sighted', $1)`, [messageId])
  return { p_source: `'sighted'`, p_message_id: `'${messageId}'` }
}

async function inboxClaims(db: TestDatabase): Promise<Arguments> {
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

async function timerClaims(db: TestDatabase): Promise<Arguments> {
  const { timerId, leaseToken } = await createClaimedTimer(db)
  const tokens = `ARRAY[${uuid(leaseToken)}]`
  return { p_timer_ids: `ARRAY[${uuid(timerId)}]`, p_lease_tokens: tokens, p_worker_id: `'${WORKER}'` }
}

async function runClaims(db: TestDatabase): Promise<Arguments> {
  const { runId, leaseToken } = await createClaimedJobRun(db)
  const tokens = `ARRAY[${uuid(leaseToken)}]`
  return { p_run_ids: `ARRAY[${uuid(runId)}]`, p_lease_tokens: tokens, p_worker_id: `'${WORKER}'` }
}

async function createJobName(db: TestDatabase): Promise<Arguments> {
  return { p_job_name: `'${await createJob(db)}'` }
}

async function createEpoch(db: TestDatabase): Promise<Arguments> {
  const { record } = await checkDispatchEpoch(db.as('symphony_executor'), WORKER)
  const { epochId, beatNo, beatAt } = record
  return { p_epoch_id: uuid(epochId), p_beat_no: `${beatNo}`, p_beat_at: `'${beatAt.toISOString()}'` }
}

async function createHeldItem(db: TestDatabase): Promise<string> {
  const { outboxId } = await enqueue(db)
  await placeOutboxHold(db.as('symphony_control'), outboxId, 'odd')
  return outboxId
}

/** Creates a finding: a payment that the bank booked twice. Returns its id. */
async function createFinding(db: TestDatabase): Promise<string> {
  const { outboxId, railType } = await enqueuePaid(db)
  const { runId } = await reconcileEntries(db, railType, [{ outboxId }, { outboxId }])
  const [finding] = await findingsOf(db, runId)
  return finding!.findingId
}

/** Creates a proposal by a person who does not decide on it. */
async function createProposal(db: TestDatabase): Promise<string> {
  const person = await createPerson(db, `proposer_${randomUUID().slice(0, 8)}`)
  return propose(person, await createHeldItem(db), 'FAILED')
}

/** Creates a limit and a payment that counts against it. Returns the name of the limit. */
async function createLimit(db: TestDatabase): Promise<string> {
  const name = `limit-${randomUUID()}`
  const proposalId = await createLimitProposal(db, name)
  await approveOutboxLimit(db.as('symphony_control'), proposalId)
  await enqueue(db, { railType: RAIL_WITH_LIMIT })
  return name
}

const RAIL_WITH_LIMIT = 'rail-with-limit'

/** Creates a proposal of a limit, by a person who does not decide on it. */
async function createLimitProposal(db: TestDatabase, name = `limit-${randomUUID()}`): Promise<string> {
  const { control } = await createPerson(db, `proposer_${randomUUID().slice(0, 8)}`)
  const rule = { kind: 'count', limit: '10', railType: RAIL_WITH_LIMIT, windowSeconds: 3600 } as const
  return proposeOutboxLimit(control, name, rule, 'as agreed')
}

function pause(rail: string): Arguments {
  return { p_kind: `'rail'`, p_name: `'${rail}'`, p_reason: `'maintenance'` }
}

function uuid(value: string): string {
  return `'${value}'::uuid`
}
