import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { ApiKeys } from '../../libs/access/index.js'
import { call as callFunction, quoteIdentifier, type RoleHandle } from '../../libs/db/index.js'
import { deploy } from '../../libs/deployment/index.js'
import { recordLedgerVerification } from '../../libs/ledger/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import type { InboxClaim } from '../../libs/inbox/index.js'
import {
  declareOutboxRails,
  freezeDispatch,
  heartbeatOutboxWorker,
  liftDispatchFreeze,
  pauseOutbox,
  placeOutboxHold,
  repairExpiredLeases,
  resolveOutboxHold,
  setParticipantOutboxPolicy,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import type { ClaimedJobRun, ClaimedTimer } from '../../libs/scheduler/index.js'
import { type TestLogin, useTestDatabase } from '../support/database.js'
import { fingerprint, type Fingerprint } from '../support/fingerprint.js'
import { buildMessage, enqueued, enqueuedAndClaimed } from '../support/inboxMessages.js'
import {
  createContradiction,
  buildInstruction,
  complete,
  enqueue,
  enqueueAndClaim,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'
import { createClaimedJobRun, createClaimedTimer, createJob } from '../support/scheduled.js'

/**
 * Every role × every object × every right, exercised on existing rows. The objects come from the catalog, so that a new
 * one without an entry here fails. The rights of each role are listed here, after the specification.
 */

const ROLES = ['control', 'ingest', 'executor', 'readonly', 'auditor', 'auth'] as const
type Role = (typeof ROLES)[number]
/** PUBLIC is a login without any role. */
const ACTORS = [...ROLES, 'PUBLIC'] as const
type Actor = (typeof ACTORS)[number]

/** Readers of each table and view, with the columns that they may not see. A role that is missing may read nothing. */
const READERS: Readonly<Record<string, Partial<Record<Role, { readonly except: readonly string[] }>>>> = {
  symphony_settings: { auditor: whole() },
  api_keys: { control: except('secret_hash'), auditor: except('secret_hash') },
  // Only control rewraps keys, so only it reads the wrapped key.
  subject_keys: { control: whole(), auditor: except('wrapped_key') },
  inbox_messages: {
    control: except('fence'),
    auditor: except('fence'),
    readonly: except('fence', 'payload'),
  },
  inbox_events: { control: whole(), auditor: whole(), readonly: whole() },
  symphony_deployments: { control: whole(), auditor: whole(), readonly: whole() },
  // The sequence shows how much each participant pays, so only operators read it.
  participant_outbox_sequences: { control: whole() },
  participant_outbox_policies: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_identities: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_pending: {
    control: except('lease_token'),
    auditor: except('lease_token'),
    readonly: except('lease_token', 'payload', 'late_outcome', 'block_unverified'),
  },
  // The lease tokens in the ledger are no longer valid.
  payment_outbox_attempts: { control: whole(), auditor: whole(), readonly: except('lease_token', 'payload') },
  payment_outbox_events: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_blocks: { control: whole(), auditor: whole(), readonly: whole() },
  // Its results are in ledger_verifications.
  ledger_verification_passes: {},
  ledger_verifications: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_proposals: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_contradictions: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_pauses: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_workers: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_rails: { control: whole(), auditor: whole(), readonly: whole() },
  dispatch_epochs: { control: whole(), auditor: whole(), readonly: whole() },
  // Not lease_id, because it can renew and release a lease.
  symphony_leases: {
    control: except('lease_id', 'floor_seen'),
    auditor: except('lease_id'),
    readonly: except('lease_id', 'context', 'floor_seen'),
  },
  symphony_lease_floor: { auditor: whole() },
  outbox_attempt_tallies: {},
  outbox_attempt_totals: {},
  scheduler_jobs: { control: whole(), auditor: whole(), readonly: except('payload') },
  scheduler_tasks: {},
  scheduler_timers: { control: whole(), auditor: whole(), readonly: except('payload') },
  scheduler_job_runs: { control: whole(), auditor: whole(), readonly: except('payload') },
  supervisor_outbox_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_inbox_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_scheduler_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_lease_status: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_operational_status: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_throughput: { control: whole(), auditor: whole(), readonly: whole() },
}

/** Caller of each function. Only other functions call an internal one, as its owner. */
const CALLERS: Readonly<Record<string, Role | 'internal'>> = {
  enqueue_payment_outbox: 'ingest',
  enqueue_payment_outbox_batch: 'ingest',
  enqueue_outbox_packed: 'ingest',
  enqueue_inbox_message: 'ingest',
  enqueue_inbox_messages: 'ingest',
  ensure_subject_keys: 'ingest',
  unserved_outbox_rails: 'ingest',
  schedule_timer: 'ingest',
  cancel_timer: 'ingest',

  read_subject_keys: 'executor',
  master_keys_in_use: 'executor',
  claim_outbox_batch: 'executor',
  claim_outbox_packed: 'executor',
  renew_outbox_lease: 'executor',
  renew_outbox_leases: 'executor',
  release_outbox_lease: 'executor',
  release_outbox_leases: 'executor',
  begin_outbox_dispatch: 'executor',
  hold_leased_outbox_item: 'executor',
  complete_outbox_attempt: 'executor',
  complete_outbox_attempts: 'executor',
  complete_outbox_packed: 'executor',
  record_late_outcome: 'executor',
  repair_expired_leases: 'executor',
  seal_ledger_block: 'executor',
  verify_ledger_block: 'executor',
  outbox_backoff: 'executor',
  next_outbox_event: 'executor',
  heartbeat_outbox_worker: 'executor',
  deregister_outbox_worker: 'executor',
  ledger_sealing_status: 'readonly',
  declare_outbox_rail: 'executor',
  check_dispatch_epoch: 'executor',
  acquire_lease: 'executor',
  renew_lease: 'executor',
  release_lease: 'executor',
  purge_idle_leases: 'executor',
  record_inbox_sighting: 'executor',
  mark_inbox_processing: 'executor',
  mark_inbox_processed: 'executor',
  mark_inbox_dead: 'executor',
  claim_inbox_batch: 'executor',
  ack_inbox_messages: 'executor',
  abandon_inbox_messages: 'executor',
  fail_inbox_messages: 'executor',
  next_inbox_event: 'executor',
  purge_inbox_messages: 'executor',
  due_jobs: 'executor',
  create_job_runs: 'executor',
  postpone_job: 'executor',
  next_scheduler_event: 'executor',
  enqueue_due_timers: 'executor',
  claim_timers: 'executor',
  ack_timers: 'executor',
  abandon_timers: 'executor',
  fail_timers: 'executor',
  purge_finished_timers: 'executor',
  enqueue_due_job_runs: 'executor',
  claim_job_runs: 'executor',
  ack_job_runs: 'executor',
  abandon_job_runs: 'executor',
  fail_job_runs: 'executor',
  purge_finished_job_runs: 'executor',

  place_outbox_hold: 'control',
  resolve_outbox_hold: 'control',
  redrive_outbox_item: 'control',
  approve_outbox_proposal: 'control',
  withdraw_outbox_proposal: 'control',
  review_outbox_contradiction: 'control',
  pause_outbox: 'control',
  resume_outbox: 'control',
  set_participant_outbox_policy: 'control',
  freeze_dispatch: 'control',
  lift_dispatch_freeze: 'control',
  revive_inbox_message: 'control',
  create_or_update_job: 'control',
  pause_job: 'control',
  resume_job: 'control',
  trigger_job: 'control',
  delete_job: 'control',
  create_api_key: 'control',
  revoke_api_key: 'control',
  rewrap_subject_keys: 'control',
  destroy_subject_key: 'control',
  is_actor_gateway: 'control',

  record_ledger_verification: 'auditor',

  authenticate_api_key: 'auth',

  admit_outbox_items: 'internal',
  find_new_outbox_items: 'internal',
  place_outbox_items: 'internal',
  raise_idempotency_conflict: 'internal',
  report_outbox_items: 'internal',
  reserve_outbox_numbers: 'internal',
  require_key_scope: 'internal',
  advance_outbox_streams: 'internal',
  api_scope_role: 'internal',
  append_outbox_events: 'internal',
  append_outbox_scope_event: 'internal',
  append_trail_events: 'internal',
  apply_outbox_decision: 'internal',
  begin_dispatch_epoch: 'internal',
  bump_participant_outbox_seq: 'internal',
  check_lease_duration: 'internal',
  dead_letter_inbox_messages: 'internal',
  check_api_key: 'internal',
  check_api_key_parts: 'internal',
  check_wrapped_keys: 'internal',
  check_inbox_claims: 'internal',
  check_inbox_errors: 'internal',
  check_inbox_key: 'internal',
  check_inbox_messages: 'internal',
  check_job_runs: 'internal',
  check_outbox_items: 'internal',
  check_outbox_leases: 'internal',
  check_outbox_outcomes: 'internal',
  check_outbox_pause: 'internal',
  check_scheduled_message: 'internal',
  check_scheduler_leases: 'internal',
  claim_tasks: 'internal',
  claimable_outbox_rails: 'internal',
  count_open_brackets: 'internal',
  create_outbox_redrive: 'internal',
  current_dispatch_epoch: 'internal',
  server_identity: 'internal',
  complete_dispatched_outbox_items: 'internal',
  settle_ordered_heads: 'internal',
  end_task_claims: 'internal',
  enqueue_due_tasks: 'internal',
  enqueue_scheduled_messages: 'internal',
  epoch_micros: 'internal',
  expire_outbox_leases: 'internal',
  roll_up_outbox_tallies: 'internal',
  freeze_dispatch_epoch: 'internal',
  has_inexact_number: 'internal',
  is_double_number: 'internal',
  shows_long_number: 'internal',
  inbox_content_hash: 'internal',
  is_dispatch_open: 'internal',
  check_id: 'internal',
  check_number: 'internal',
  check_text: 'internal',
  check_time: 'internal',
  is_id: 'internal',
  is_id_list: 'internal',
  is_inbox_id: 'internal',
  is_outbox_paused: 'internal',
  is_person_name: 'internal',
  is_plain_payload_text: 'internal',
  is_replicated_synchronously: 'internal',
  is_short_text: 'internal',
  lock_due_outbox_rows: 'internal',
  redrive_position: 'internal',
  lock_held_outbox_item: 'internal',
  lock_live_lease: 'internal',
  lock_inbox_message: 'internal',
  lock_live_inbox_claims: 'internal',
  lock_live_outbox_leases: 'internal',
  lock_open_outbox_proposal: 'internal',
  lock_outbox_item: 'internal',
  lock_outbox_payment: 'internal',
  hold_outbox_redrives: 'internal',
  late_paid_item: 'internal',
  outbox_payment_items: 'internal',
  lock_redrivable_outbox_item: 'internal',
  mark_frozen_outbox_items: 'internal',
  mark_inbox_message: 'internal',
  notify_outbox_pending: 'internal',
  outbox_actor: 'internal',
  outbox_actor_of_key: 'internal',
  outbox_attempt_ceiling: 'internal',
  outbox_base_key: 'internal',
  outbox_block_entries: 'internal',
  outbox_block_hash: 'internal',
  outbox_block_root: 'internal',
  outbox_content_hash: 'internal',
  outbox_evidence: 'internal',
  outbox_hold_detail: 'internal',
  contradicting_late_success: 'internal',
  is_claimable_item: 'internal',
  payload_defect: 'internal',
  person_key: 'internal',
  propose_outbox_decision: 'internal',
  raise_already_terminal: 'internal',
  raise_dispatch_frozen: 'internal',
  raise_lease_lost: 'internal',
  raise_unknown_job: 'internal',
  record_completion_events: 'internal',
  record_outbox_contradictions: 'internal',
  record_deployment: 'internal',
  record_full_trail: 'internal',
  refuse_argument: 'internal',
  require_no_open_proposal: 'internal',
  require_read_committed: 'internal',
  refuse_mutation: 'internal',
  require_operator_arguments: 'internal',
  require_utf8_session: 'internal',
  set_actor_gateway: 'internal',
  upsert_inbox_message: 'internal',
  small_payload_text: 'internal',
  trace_context_or_null: 'internal',
  purge_finished_tasks: 'internal',
  release_expired_tasks: 'internal',
  release_tasks: 'internal',
  uuid_v7: 'internal',
  verify_blocked_outbox_items: 'internal',
  wake_inbox_workers: 'internal',
  wake_outbox_workers: 'internal',
  wake_schedulers: 'internal',
}

/** Further callers of a function, such as operators who cancel a timer. */
const FURTHER_CALLERS: Readonly<Record<string, readonly Role[]>> = {
  cancel_timer: ['control'],
  declare_outbox_rail: ['control'],
  master_keys_in_use: ['control'],
  ledger_sealing_status: ['control', 'auditor'],
}

function mayCall(actor: Actor, name: string): boolean {
  return CALLERS[name] === actor || (FURTHER_CALLERS[name] ?? []).some((role) => role === actor)
}

/** A call of each public function that must succeed, on items created for it. */
const USES: Readonly<Record<string, (call: Call) => Promise<unknown>>> = {
  enqueue_payment_outbox: (call) => call(...instructionValues()),
  enqueue_payment_outbox_batch: (call) => call(...instructionValues().map((value) => [value])),
  enqueue_outbox_packed: (call) => call(...instructionValues().map((value) => [value])),
  enqueue_inbox_message: (call) => call(...messageValues()),
  enqueue_inbox_messages: (call) => call(...messageValues().map((value) => [value])),
  schedule_timer: (call) => call('topic', {}, new Date()),
  cancel_timer: async (call) => call((await createClaimedTimer(db)).timerId),

  claim_outbox_batch: async (call) => call(1, WORKER, 60, [(await enqueue(db)).railType]),
  claim_outbox_packed: async (call) => call(1, WORKER, 60, [(await enqueue(db)).railType]),
  renew_outbox_lease: async (call) => call(...lease(await enqueueAndClaim(db)), 60),
  renew_outbox_leases: async (call) => call(...leases(await enqueueAndClaim(db)), 60),
  release_outbox_lease: async (call) => call(...lease(await enqueueAndClaim(db))),
  release_outbox_leases: async (call) => call(...leases(await enqueueAndClaim(db))),
  begin_outbox_dispatch: async (call) => call(...lease(await enqueueAndClaim(db))),
  hold_leased_outbox_item: async (call) => call(...lease(await enqueueAndClaim(db)), 'odd'),
  complete_outbox_attempt: async (call) => call(...lease(await enqueueAndClaim(db)), 'DISPATCHED', 'ref'),
  complete_outbox_attempts: async (call) => call(...leases(await enqueueAndClaim(db)), ['DISPATCHED'], ['ref']),
  complete_outbox_packed: async (call) => call(...leases(await enqueueAndClaim(db)), ['DISPATCHED'], ['ref']),
  record_late_outcome: async (call) => call(...lease(await enqueueAndClaim(db)), 'DISPATCHED', 'ref'),
  repair_expired_leases: async (call) => {
    await db.expireLease((await enqueueAndClaim(db)).outboxId)
    return call(10, WORKER)
  },
  seal_ledger_block: (call) => call(1),
  verify_ledger_block: (call) => call(1_000, 60),
  outbox_backoff: async (call) => call(1, (await enqueue(db)).outboxId),
  next_outbox_event: (call) => call(null),
  heartbeat_outbox_worker: (call) => call(WORKER, {}),
  deregister_outbox_worker: (call) => call('gone', {}),
  ledger_sealing_status: (call) => call(),
  declare_outbox_rail: (call) => call('rail', true, {}, WORKER),
  check_dispatch_epoch: (call) => call(WORKER),
  acquire_lease: (call) => call('a-free-resource', WORKER, 60_000, {}),
  renew_lease: async (call) => call(...(await heldLease()), 60_000),
  release_lease: async (call) => call(...(await heldLease())),
  purge_idle_leases: (call) => call(3600, 10),
  record_inbox_sighting: (call) => call('source', randomUUID()),
  mark_inbox_processing: async (call) => call(...(await sighted())),
  mark_inbox_processed: async (call) => {
    const key = await sighted()
    await callFunction(db.as('symphony_executor'), 'mark_inbox_processing', key)
    return call(...key)
  },
  mark_inbox_dead: async (call) => call(...(await sighted()), 'poison'),
  claim_inbox_batch: async (call) => {
    await enqueued(db)
    return call(1, WORKER, 60)
  },
  ack_inbox_messages: async (call) => call(...inboxClaims(await enqueuedAndClaimed(db))),
  abandon_inbox_messages: async (call) => call(...inboxClaims(await enqueuedAndClaimed(db))),
  fail_inbox_messages: async (call) => call(...inboxClaims(await enqueuedAndClaimed(db))),
  next_inbox_event: (call) => call(),
  purge_inbox_messages: (call) => call(1_000, 10),
  due_jobs: (call) => call(10),
  create_job_runs: async (call) => call([await createJob(db)], [1], [new Date()], [new Date()]),
  postpone_job: async (call) => call(await createJob(db), 1, 'unreadable'),
  next_scheduler_event: (call) => call(false),
  enqueue_due_timers: (call) => call(10),
  claim_timers: (call) => call(10, WORKER, 60),
  ack_timers: async (call) => call(...timerClaims(await createClaimedTimer(db))),
  abandon_timers: async (call) => call(...timerClaims(await createClaimedTimer(db))),
  fail_timers: async (call) => call(...timerClaims(await createClaimedTimer(db))),
  purge_finished_timers: (call) => call(60, 10),
  enqueue_due_job_runs: (call) => call(10),
  claim_job_runs: (call) => call(10, WORKER, 60),
  ack_job_runs: async (call) => call(...runClaims(await createClaimedJobRun(db))),
  abandon_job_runs: async (call) => call(...runClaims(await createClaimedJobRun(db))),
  fail_job_runs: async (call) => call(...runClaims(await createClaimedJobRun(db))),
  purge_finished_job_runs: (call) => call(60, 10),

  place_outbox_hold: async (call) => call((await enqueue(db)).outboxId, 'odd'),
  resolve_outbox_hold: async (call) => call(await heldItem(), 'RETRY', 'checked'),
  redrive_outbox_item: async (call) => call(await failedItem(), 'bank was closed'),
  approve_outbox_proposal: async (call) => call(await proposal()),
  withdraw_outbox_proposal: async (call) => call(await proposal(), 'mistaken'),
  review_outbox_contradiction: async (call) => call(await createContradiction(db), 'compared'),
  pause_outbox: (call) => call('rail', 'rail-to-pause', 'maintenance'),
  resume_outbox: async (call) => {
    await pauseOutbox(control(), 'rail', 'rail-to-resume', 'maintenance')
    return call('rail', 'rail-to-resume', 'done')
  },
  set_participant_outbox_policy: (call) => call('participant-1', 'halt'),
  freeze_dispatch: async (call) => {
    const answer = await call('restored by hand')
    await liftDispatchFreeze(control(), 'compared')
    return answer
  },
  lift_dispatch_freeze: async (call) => {
    await freezeDispatch(control(), 'restored by hand')
    return call('compared')
  },
  revive_inbox_message: async (call) => call(...(await deadMessage()), 'repaired'),
  create_or_update_job: (call) => call('job', '@daily', 'UTC', 'topic', {}, new Date()),
  pause_job: async (call) => call(await createJob(db)),
  resume_job: async (call) => call(await createJob(db), 1, new Date()),
  trigger_job: async (call) => call(await createJob(db)),
  delete_job: async (call) => call(await createJob(db)),
  create_api_key: (call) => call('privileged', Buffer.alloc(32), ['read'], 'alice'),
  revoke_api_key: async (call) => call(await createKeyId()),
  rewrap_subject_keys: (call) => call([randomUUID()], ['A'.repeat(80)], 'next', 'first'),
  destroy_subject_key: (call) => call('unknown-subject', 'asked to'),
  read_subject_keys: (call) => call([randomUUID()]),
  master_keys_in_use: (call) => call(),
  ensure_subject_keys: (call) => call([randomUUID()], [randomUUID()], ['A'.repeat(80)], 'first'),
  unserved_outbox_rails: (call) => call(['sepa']),
  is_actor_gateway: (call) => call(),

  record_ledger_verification: (call) => call(1, 0),

  authenticate_api_key: async (call) => call(await createKeyId(), Buffer.alloc(32)),
}

/** Statements that change or lock a table, its rows or its definition. */
const WRITES: readonly { readonly right: string; readonly sql: (table: Relation) => string }[] = [
  { right: 'INSERT', sql: ({ name }) => `INSERT INTO ${name} DEFAULT VALUES` },
  { right: 'INSERT by COPY', sql: ({ name }) => `COPY ${name} FROM STDIN` },
  { right: 'UPDATE', sql: ({ name, columns }) => `UPDATE ${name} SET ${columns[0]} = DEFAULT` },
  { right: 'UPDATE of no row', sql: ({ name, columns }) => `UPDATE ${name} SET ${columns[0]} = NULL WHERE false` },
  { right: 'DELETE', sql: ({ name }) => `DELETE FROM ${name}` },
  { right: 'MERGE', sql: ({ name }) => `MERGE INTO ${name} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE` },
  { right: 'TRUNCATE', sql: ({ name }) => `TRUNCATE ${name}` },
  { right: 'row locks', sql: ({ name }) => `SELECT 1 FROM ${name} FOR UPDATE` },
  { right: 'the weakest row lock', sql: ({ name }) => `SELECT 1 FROM ${name} FOR KEY SHARE` },
  { right: 'table locks', sql: ({ name }) => `LOCK TABLE ${name} IN ROW EXCLUSIVE MODE` },
  { right: 'the strongest table lock', sql: ({ name }) => `LOCK TABLE ${name} IN ACCESS EXCLUSIVE MODE NOWAIT` },
  { right: 'TRIGGER', sql: ({ name }) => `CREATE TRIGGER t AFTER INSERT ON ${name} EXECUTE FUNCTION scratch.f()` },
  { right: 'MAINTAIN', sql: ({ name }) => `REINDEX TABLE ${name}` },
  { right: 'a rule', sql: ({ name }) => `CREATE RULE r AS ON INSERT TO ${name} DO INSTEAD NOTHING` },
  { right: 'an index', sql: ({ name, columns }) => `CREATE INDEX ON ${name} (${columns[0]})` },
  { right: 'ALTER', sql: ({ name }) => `ALTER TABLE ${name} ADD COLUMN mine int` },
  { right: 'DISABLE TRIGGER', sql: ({ name }) => `ALTER TABLE ${name} DISABLE TRIGGER ALL` },
  { right: 'RENAME', sql: ({ name }) => `ALTER TABLE ${name} RENAME TO mine` },
  { right: 'OWNER', sql: ({ name }) => `ALTER TABLE ${name} OWNER TO CURRENT_USER` },
  { right: 'DROP', sql: ({ name }) => `DROP TABLE ${name}` },
]

interface Relation {
  /** Qualified and quoted. */
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly columns: readonly string[]
  readonly primaryKey: readonly { readonly name: string; readonly type: string }[]
}

type Call = (...values: unknown[]) => Promise<unknown>

// Without branch counts, because they would change the functions in the catalog.
const db = await useTestDatabase({ countBranches: false })
let stranger: TestLogin
let second: TestLogin
let relations: ReadonlyMap<string, Relation>
let functions: ReadonlyMap<string, { readonly signature: string; readonly nulls: string }>
let deployed: Fingerprint
const clients = new Map<Actor, Client>()

beforeAll(async () => {
  stranger = await db.createLogin('stranger')
  second = await db.createLogin('second', { roles: ['symphony_control'] })
  deployed = await fingerprint(db)
  await putARowInEveryTable()
  relations = await readRelations()
  functions = await readFunctions()
  // A schema in which every actor may create the objects that a statement needs.
  await db.queryNoRole(`CREATE SCHEMA scratch; GRANT ALL ON SCHEMA scratch TO PUBLIC;
    CREATE FUNCTION scratch.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`)
  for (const role of ROLES) clients.set(role, await db.connect(`symphony_${role}`))
  clients.set('PUBLIC', await stranger.connect())
})
afterAll(async () => {
  process.stdout.write(`privileges: ${statements} statements\n`)
})

test('every table and view has an entry in READERS', () => {
  expect([...relations.keys()].toSorted()).toEqual(Object.keys(READERS).toSorted())
})

test('every function has an entry in CALLERS', () => {
  expect([...functions.keys()].toSorted()).toEqual(Object.keys(CALLERS).toSorted())
})

test('every function with a caller has an entry in USES, and no other', () => {
  const called = Object.entries(CALLERS).flatMap(([name, caller]) => (caller === 'internal' ? [] : [name]))
  expect(Object.keys(USES).toSorted()).toEqual(called.toSorted())
})

test('every table and view has a row', async () => {
  for (const { name } of relations.values()) {
    const { rows } = await db.queryNoRole(`SELECT $1::text AS name FROM ${name} LIMIT 1`, [name])
    expect(rows).toEqual([{ name }])
  }
})

describe.each(ACTORS)('actor %s', (actor) => {
  test.each(Object.keys(READERS))('reads only the permitted columns of %s', async (table) => {
    const { name, columns } = relations.get(table)!
    const access = actor === 'PUBLIC' ? undefined : READERS[table]![actor]
    const mayRead = (column: string) => access !== undefined && !access.except.includes(column)
    for (const column of columns) {
      expect(`${column}: ${await outcomeOf(actor, `SELECT ${quoteIdentifier(column)} FROM ${name}`)}`).toBe(
        `${column}: ${mayRead(column) ? 'rows' : '42501'}`,
      )
    }
    expect(await outcomeOf(actor, `SELECT * FROM ${name}`)).toBe(columns.every(mayRead) ? 'rows' : '42501')
    expect(await outcomeOf(actor, `SELECT t FROM ${name} t`)).toBe(columns.every(mayRead) ? 'rows' : '42501')
    expect(await outcomeOf(actor, `SELECT count(*) FROM ${name}`)).toBe(columns.some(mayRead) ? 'rows' : '42501')
    expect(access?.except.filter((column) => !columns.includes(column)) ?? []).toEqual([])
  })

  test.each(Object.keys(READERS))('cannot write, lock, alter or drop %s (42501)', async (table) => {
    const relation = relations.get(table)!
    // PostgreSQL checks some rights only after it has checked that the statement fits the kind of object.
    const refusals = relation.kind === 'table' ? ['42501'] : ['42501', '42809', '55000', '0A000']
    const outcomes: [right: string, outcome: string][] = []
    for (const { right, sql } of WRITES) outcomes.push([right, await outcomeOf(actor, sql(relation))])
    expect(outcomes.filter(([, outcome]) => !refusals.includes(outcome))).toEqual([])
    // A relation without a primary key cannot be referenced.
    for (const sql of referencing(relation)) expect(await outcomeOf(actor, sql)).toBe('42501')
  })

  test('has no right but SELECT on any table or column', async () => {
    const rights = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']
    // PostgreSQL 17 has one more.
    if (inject('postgresVersion') >= 17) rights.push('MAINTAIN')
    const { rows } = await db.queryNoRole<{ held: string }>(
      `SELECT format('%s on %s', r.name, c.relname) AS held
       FROM pg_class c CROSS JOIN unnest($2::text[]) AS r(name)
       WHERE c.relnamespace = $3::regnamespace AND c.relkind IN ('r', 'v', 'p', 'm', 'f')
         AND (has_table_privilege($1, c.oid, r.name)
           OR (r.name IN ('INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege($1, c.oid, r.name)))`,
      [roleName(actor), rights, quoteIdentifier(db.schema)],
    )
    expect(rows).toEqual([])
  })

  test('creates nothing in the schema (42501), and only PUBLIC lacks USAGE', async () => {
    const { rows } = await db.queryNoRole(
      `SELECT has_schema_privilege($1, $2, 'USAGE') AS usage, has_schema_privilege($1, $2, 'CREATE') AS create`,
      [roleName(actor), db.schema],
    )
    expect(rows).toEqual([{ usage: actor !== 'PUBLIC', create: false }])
    const schema = quoteIdentifier(db.schema)
    for (const statement of [
      `CREATE TABLE ${schema}.mine (a int)`,
      `CREATE VIEW ${schema}.mine AS SELECT 1`,
      `CREATE SEQUENCE ${schema}.mine`,
      `CREATE TYPE ${schema}.mine AS ENUM ('a')`,
      `CREATE FUNCTION ${schema}.is_id(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
      `CREATE FUNCTION ${schema}.is_id(varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
      `CREATE OPERATOR ${schema}.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = uuid_ne)`,
      `CREATE COLLATION ${schema}."C" FROM "C"`,
      `ALTER SCHEMA ${schema} RENAME TO mine`,
      `DROP SCHEMA ${schema} CASCADE`,
    ]) {
      // Replacing a function needs its owner. PostgreSQL may check the schema first.
      expect([statement, await outcomeOf(actor, statement)]).toEqual([statement, '42501'])
    }
  })

  test('cannot use the types of the schema (42501)', async () => {
    const { rows } = await db.queryNoRole<{ name: string }>(
      `SELECT t.oid::regtype::text AS name FROM pg_type t
       WHERE t.typnamespace = $1::regnamespace AND t.typcategory <> 'A' AND has_type_privilege($2, t.oid, 'USAGE')`,
      [quoteIdentifier(db.schema), roleName(actor)],
    )
    expect(rows).toEqual([])
    for (const type of ['outbox_attempt_state', 'payment_outbox_attempts', 'outbox_operational_status']) {
      const name = `${quoteIdentifier(db.schema)}.${type}`
      expect([type, await outcomeOf(actor, `CREATE TABLE scratch.t (a ${name})`)]).toEqual([type, '42501'])
      expect([type, await outcomeOf(actor, `CREATE TABLE scratch.t (a ${name}[])`)]).toEqual([type, '42501'])
    }
  })

  test.each(Object.entries(CALLERS).filter(([name]) => !mayCall(actor, name)))(
    'may not call %s (42501); its caller is %s',
    async (name) => {
      const { nulls, signature } = functions.get(name)!
      expect(await outcomeOf(actor, `SELECT ${quoteIdentifier(db.schema)}.${name}(${nulls})`)).toBe('42501')
      const { rows } = await db.queryNoRole(`SELECT has_function_privilege($1, $2::regprocedure, 'EXECUTE') AS may`, [
        roleName(actor),
        signature,
      ])
      expect(rows).toEqual([{ may: false }])
    },
  )

  test('cannot set the role to the owner or another symphony role (42501)', async () => {
    const login = await db.createLogin(`only_${actor.toLowerCase()}`, {
      roles: actor === 'PUBLIC' ? [] : [`symphony_${actor}`],
    })
    const client = await login.connect()
    for (const role of ['symphony_owner', ...ROLES.filter((other) => other !== actor).map((r) => `symphony_${r}`)]) {
      expect(await failureOf(client.query(`SET ROLE ${role}`))).toMatchObject({ code: '42501' })
    }
  })
})

describe.each(ROLES.filter((role) => Object.values(CALLERS).includes(role)))('role %s', (role) => {
  test.each(Object.keys(CALLERS).filter((name) => mayCall(role, name)))('may call %s', async (name) => {
    const call: Call = async (...values) => callFunction(db.as(`symphony_${role}`), name, values)
    expect(await USES[name]!(call)).toBeInstanceOf(Array)
  })
})

test('symphony roles have no login, no attribute and no membership in each other', async () => {
  const { rows } = await db.queryNoRole(
    `SELECT rolname, rolsuper OR rolinherit OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolreplication
         OR rolbypassrls AS has_an_attribute,
       rolconfig, ARRAY(
         SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid) AS member_of
     FROM pg_roles r WHERE NOT rolcanlogin AND rolname LIKE 'symphony\\_%' ORDER BY rolname COLLATE "C"`,
  )
  expect(rows).toEqual(
    ['auditor', 'auth', 'control', 'executor', 'ingest', 'owner', 'readonly'].map((role) => ({
      rolname: `symphony_${role}`,
      has_an_attribute: false,
      rolconfig: null,
      member_of: [],
    })),
  )
  const owners = await db.queryNoRole(
    `SELECT m.member::regrole::text FROM pg_auth_members m
     WHERE m.roleid = 'symphony_owner'::regrole AND m.member::regrole::text ~ ('^symphony_|' || current_database())`,
  )
  expect(owners.rows).toEqual([])
})

test('symphony_auth has rights on the schema and on authenticate_api_key only', async () => {
  const { rows } = await db.queryNoRole(
    `SELECT CASE classid WHEN 'pg_proc'::regclass THEN objid::regproc::text ELSE 'the schema' END AS object,
       deptype AS kind, classid = 'pg_proc'::regclass OR objid = $1::regnamespace AS known
     FROM pg_shdepend
     WHERE refclassid = 'pg_authid'::regclass AND refobjid = 'symphony_auth'::regrole
       AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY object`,
    [quoteIdentifier(db.schema)],
  )
  expect(rows).toEqual([
    { object: expect.stringMatching(/authenticate_api_key$/), kind: 'a', known: true },
    { object: 'the schema', kind: 'a', known: true },
  ])
})

test('a deployment revokes rights granted to symphony roles and PUBLIC by hand', async () => {
  const { schema } = db
  await db.queryNoRole(
    `GRANT ALL ON ALL TABLES IN SCHEMA ${quoteIdentifier(schema)} TO symphony_readonly, symphony_auditor, PUBLIC;
     GRANT ALL ON ALL FUNCTIONS IN SCHEMA ${quoteIdentifier(schema)} TO symphony_auth, PUBLIC;
     GRANT USAGE ON TYPE outbox_attempt_state, payment_outbox_attempts TO symphony_executor, PUBLIC;
     GRANT ALL ON SCHEMA ${quoteIdentifier(schema)} TO symphony_auth, PUBLIC`,
  )
  await deploy({ url: db.url, schema })
  const healed = await fingerprint(db)
  expect(healed.objects).toEqual(deployed.objects)
})

let statements = 0

async function outcomeOf(actor: Actor, sql: string): Promise<string> {
  const client = clients.get(actor)!
  statements += 1
  await client.query('BEGIN')
  try {
    const { rows } = await client.query(sql)
    return rows.length > 0 ? 'rows' : 'no rows'
  } catch (error) {
    return refusalIn(error).code
  } finally {
    await client.query('ROLLBACK')
  }
}

function whole(): { readonly except: readonly string[] } {
  return { except: [] }
}

function except(...columns: string[]): { readonly except: readonly string[] } {
  return { except: columns }
}

function roleName(actor: Actor): string {
  return actor === 'PUBLIC' ? stranger.name : `symphony_${actor}`
}

function control(): RoleHandle {
  return db.as('symphony_control')
}

function instructionValues(): unknown[] {
  const { instructionId, participantId, idempotencyKey, railType, payload } = buildInstruction()
  return [instructionId, participantId, idempotencyKey, railType, payload]
}

function lease({ outboxId, leaseToken }: ClaimedItem): unknown[] {
  return [outboxId, leaseToken, WORKER]
}

function leases({ outboxId, leaseToken }: ClaimedItem): unknown[] {
  return [[outboxId], [leaseToken], WORKER]
}

function messageValues(): unknown[] {
  const { source, messageId, topic, payload } = buildMessage()
  return [source, messageId, topic, payload]
}

async function sighted(): Promise<string[]> {
  const key = ['source', randomUUID()]
  await callFunction(db.as('symphony_executor'), 'record_inbox_sighting', key)
  return key
}

async function deadMessage(): Promise<string[]> {
  const key = await sighted()
  await callFunction(db.as('symphony_executor'), 'mark_inbox_dead', [...key, 'poison'])
  return key
}

function inboxClaims({ source, messageId, fence }: InboxClaim): unknown[] {
  return [[source], [messageId], [fence], WORKER]
}

function timerClaims({ timerId, leaseToken }: ClaimedTimer): unknown[] {
  return [[timerId], [leaseToken], WORKER]
}

function runClaims({ runId, leaseToken }: ClaimedJobRun): unknown[] {
  return [[runId], [leaseToken], WORKER]
}

async function createKeyId(): Promise<string> {
  const { keyId } = await new ApiKeys(db).create({ scopes: ['read'], owner: 'alice' })
  return keyId
}

async function heldItem(): Promise<string> {
  const { outboxId } = await enqueue(db)
  await placeOutboxHold(control(), outboxId, 'odd')
  return outboxId
}

async function heldLease(): Promise<unknown[]> {
  const resource = `resource-${randomUUID()}`
  const grant = await acquireLease(db.as('symphony_executor'), { resource, owner: WORKER, durationMs: 60_000 })
  return [resource, WORKER, grant!.leaseId]
}

async function failedItem(): Promise<string> {
  const item = await enqueueAndClaim(db)
  await complete(db, item, { state: 'FAILED', errorCode: 'REFUSED' })
  return item.outboxId
}

/** Creates a proposal by another person, so that the caller may approve it. */
async function proposal(): Promise<string> {
  const proposer = second.database.as('symphony_control')
  const { proposalId } = await resolveOutboxHold(proposer, await heldItem(), 'FAILED', 'the rail never saw it')
  return proposalId!
}

async function putARowInEveryTable(): Promise<void> {
  const executor = db.as('symphony_executor')
  // Inserted directly: sealing would wait for every writer of the server, those of other test files included.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
     VALUES (1, 1, 1, 1, 1, gen_random_uuid(), decode(repeat('00', 58), 'hex'), '', '', now())`,
  )
  await db.queryNoRole(
    `INSERT INTO subject_keys (key_id, subject, master_key_id, wrapped_key, created_at)
     VALUES (gen_random_uuid(), 'subject-1', 'first', repeat('A', 80), now())`,
  )
  await proposal()
  await failedItem()
  await createContradiction(db)
  await recordLedgerVerification(db.as('symphony_auditor'), { rowsChecked: 1, breakCount: 0 })
  await repairExpiredLeases(executor, 10, WORKER) // Rolls up the tallies so far into the totals.
  await failedItem()
  await enqueueAndClaim(db)
  await heartbeatOutboxWorker(executor, WORKER)
  await declareOutboxRails(executor, [{ type: 'rail-declared', money: true, fields: [] }], WORKER, { serving: true })
  await heldLease()
  await pauseOutbox(control(), 'rail', 'rail-paused', 'maintenance')
  await setParticipantOutboxPolicy(control(), 'participant-1', 'halt')
  await enqueuedAndClaimed(db)
  await deadMessage()
  await createClaimedTimer(db)
  await createClaimedJobRun(db)
  await createKeyId()
}

async function readRelations(): Promise<ReadonlyMap<string, Relation>> {
  const { rows } = await db.queryNoRole<Omit<Relation, 'name'> & { table: string }>(
    `SELECT c.relname AS table, CASE WHEN c.relkind = 'v' THEN 'view' ELSE 'table' END AS kind,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
       COALESCE((SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)))
         FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
         WHERE i.indrelid = c.oid AND i.indisprimary), '[]') AS "primaryKey"
     FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')`,
    [quoteIdentifier(db.schema)],
  )
  return new Map(
    rows.map(({ table, ...relation }) => [
      table,
      { ...relation, name: `${quoteIdentifier(db.schema)}.${quoteIdentifier(table)}` },
    ]),
  )
}

async function readFunctions(): Promise<typeof functions> {
  const { rows } = await db.queryNoRole<{ name: string; signature: string; nulls: string }>(
    `SELECT p.proname AS name, p.oid::regprocedure::text AS signature, (
       -- Omits the types of this schema, which PUBLIC cannot use.
       SELECT COALESCE(string_agg(CASE WHEN t.typnamespace = p.pronamespace THEN 'NULL' ELSE 'NULL::' || format_type(t.oid, NULL) END,
         ', ' ORDER BY a.position), '')
       FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, position) JOIN pg_type t ON t.oid = a.type) AS nulls
     FROM pg_proc p WHERE p.pronamespace = $1::regnamespace
       -- outboxComplete.spec.ts tests the overload for the enum type.
       AND (p.proname <> 'complete_outbox_attempt' OR 'outbox_attempt_state'::regtype <> ALL (p.proargtypes))`,
    [quoteIdentifier(db.schema)],
  )
  const byName = new Map(rows.map(({ name, ...rest }) => [name, rest]))
  if (byName.size < rows.length) throw new Error('two functions have one name; CALLERS cannot distinguish them')
  return byName
}

/** Returns a statement that creates a table with a foreign key to this one. */
function referencing({ name, primaryKey }: Relation): readonly string[] {
  if (primaryKey.length === 0) return []
  const columns = primaryKey.map((key) => `${key.name} ${key.type}`).join(', ')
  const names = primaryKey.map((key) => key.name).join(', ')
  return [`CREATE TABLE scratch.r (${columns}, FOREIGN KEY (${names}) REFERENCES ${name} (${names}))`]
}
