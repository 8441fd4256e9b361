/**
 * Values shared by all examples in the documentation. The tests create the same data, replace these ids by real ones
 * and execute every example.
 */
export const EXAMPLE = Object.freeze({
  instructionId: 'invoice-2041',
  participantId: 'acme',
  railType: 'simulated',
  /** Payment that was paid at the second attempt. */
  paidId: '01981f0e-7c00-7000-8000-000000000001',
  /** Payment that is held, because its outcome is unknown. */
  heldId: '01981f0e-7c00-7000-8000-000000000002',
  /** Failed payment without a redrive. */
  failedId: '01981f0e-7c00-7000-8000-000000000003',
  /** Pending payment that can be held. */
  waitingId: '01981f0e-7c00-7000-8000-000000000004',
  /** Proposals of another person: one to approve, one to withdraw. */
  approvableId: '01981f0e-7c00-7000-8000-000000000005',
  withdrawableId: '01981f0e-7c00-7000-8000-000000000006',
  eventId: '01981f0e-7c00-7000-8000-000000000007',
  attemptId: '01981f0e-7c00-7000-8000-000000000008',
  proposalId: '01981f0e-7c00-7000-8000-000000000009',
  runId: '01981f0e-7c00-7000-8000-00000000000a',
  timerId: '01981f0e-7c00-7000-8000-00000000000b',
  /** Payment that is recorded as paid under one rail reference and was later reported as paid under another. */
  contradictedId: '01981f0e-7c00-7000-8000-00000000000c',
  contradictionId: '01981f0e-7c00-7000-8000-00000000000d',
  limitName: 'globex-daily',
  /** Proposals of limits by another person: one to approve, one to withdraw. */
  approvableLimitId: '01981f0e-7c00-7000-8000-00000000000e',
  withdrawableLimitId: '01981f0e-7c00-7000-8000-00000000000f',
  /** Pending payment that can be cancelled. */
  cancellableId: '01981f0e-7c00-7000-8000-000000000010',
  reconciliationId: '01981f0e-7c00-7000-8000-000000000011',
  findingId: '01981f0e-7c00-7000-8000-000000000012',
  /** Payment that the bank booked twice. */
  paidTwiceId: '01981f0e-7c00-7000-8000-000000000013',
  jobName: 'nightly-report',
  source: 'bank-of-x',
  messageId: 'evt_17',
  at: '2026-01-31T12:00:00.000000Z',
  hash: '5d1f0a3c9b7e2486d0c4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80',
})

const MONEY_EXAMPLE = {
  amount: '12.50',
  currency: 'EUR',
  destination: '••••3000',
  destinationWithheld: null,
}

export const ITEM_EXAMPLE = Object.freeze({
  outboxId: EXAMPLE.paidId,
  instructionId: EXAMPLE.instructionId,
  idempotencyKey: EXAMPLE.instructionId,
  participantId: EXAMPLE.participantId,
  sequenceId: '17',
  railType: EXAMPLE.railType,
  createdAt: EXAMPLE.at,
  ordered: false,
  redriveOf: null,
  state: 'DISPATCHED',
  nextAttemptAt: null,
  claimedBy: null,
  claimedAt: null,
  leaseExpiresAt: null,
  outcomeUnknown: false,
  expiryStreak: 0,
  holdReason: null,
  heldBy: null,
  heldAt: null,
  lastAttemptNo: 1,
  lastAttemptState: 'DISPATCHED',
  lastAttemptAt: EXAMPLE.at,
  lastRailReference: 'TX-17',
  lastRailCode: 'PAID',
  lastErrorCode: null,
  isMessage: false,
  lastAttemptAction: 'sent',
  returned: false,
  returnedAmount: null,
  replaces: null,
  ...MONEY_EXAMPLE,
  freeze: null,
})

export const ATTEMPT_EXAMPLE = Object.freeze({
  attemptId: EXAMPLE.attemptId,
  attemptNo: 1,
  state: 'DISPATCHED',
  claimedAt: EXAMPLE.at,
  completedAt: EXAMPLE.at,
  railReference: 'TX-17',
  railCode: 'PAID',
  errorCode: null,
  errorMessage: null,
  latencyMs: 84,
  workerId: 'worker-1',
  action: 'sent',
  outcomeUnknown: false,
})

export const PROPOSAL_EXAMPLE = Object.freeze({
  proposalId: EXAMPLE.approvableId,
  outboxId: EXAMPLE.heldId,
  instructionId: EXAMPLE.instructionId,
  ...MONEY_EXAMPLE,
  decision: 'FAILED',
  reason: 'the bank never saw it',
  railReference: null,
  status: 'OPEN',
  proposedBy: 'alice',
  proposedAt: EXAMPLE.at,
  decidedBy: null,
  decidedAt: null,
})

export const HELD_EXAMPLE = Object.freeze({
  ...ITEM_EXAMPLE,
  outboxId: EXAMPLE.heldId,
  state: 'HELD',
  nextAttemptAt: EXAMPLE.at,
  outcomeUnknown: true,
  holdReason: 'no answer',
  heldBy: 'worker-1',
  heldAt: EXAMPLE.at,
  lastAttemptState: 'RETRYABLE',
  lastRailReference: null,
  lastRailCode: null,
  lastErrorCode: 'TIMEOUT',
})

export const NOTED_EXAMPLE = Object.freeze({
  assignee: 'bob',
  latestNote: { note: 'asked the bank by phone', actor: 'alice', createdAt: EXAMPLE.at },
})

export const FAILED_EXAMPLE = Object.freeze({
  ...ITEM_EXAMPLE,
  outboxId: EXAMPLE.failedId,
  state: 'FAILED',
  lastAttemptState: 'FAILED',
  lastRailReference: null,
  lastRailCode: 'ACCOUNT_CLOSED',
  lastErrorCode: 'REFUSED',
})

export const RUN_EXAMPLE = Object.freeze({
  runId: EXAMPLE.reconciliationId,
  railType: EXAMPLE.railType,
  format: 'camt053',
  fileSha256: EXAMPLE.hash,
  statementIds: ['STMT-2026-031'],
  accounts: ['DE75512108001245126199'],
  periodFrom: '2026-01-31T00:00:00.000000Z',
  periodTo: '2026-02-01T00:00:00.000000Z',
  settlementDays: 1,
  entries: 3,
  counts: {
    matched: 1,
    paidTwice: 1,
    paidNotRecorded: 0,
    recordedNotPaid: 0,
    amountDiffers: 0,
    reversed: 0,
    unknownEntry: 0,
  },
  otherRails: 0,
  unknownSums: {},
  openFindings: 1,
  actor: 'alice',
  createdAt: EXAMPLE.at,
})

const BANK_ENTRY_EXAMPLE = {
  kind: 'payout',
  account: 'DE75512108001245126199',
  bankReference: 'BK-8841',
  reference: '01981f0e7c0070008000000000000013',
  amount: '12.50',
  currency: 'EUR',
  bookedOn: '2026-01-31',
  valuedOn: '2026-01-31',
}

export const FINDING_EXAMPLE = Object.freeze({
  findingId: EXAMPLE.findingId,
  runId: EXAMPLE.reconciliationId,
  railType: EXAMPLE.railType,
  kind: 'paid_twice',
  severity: 'critical',
  outboxId: EXAMPLE.paidTwiceId,
  payment: {
    state: 'DISPATCHED',
    amount: '12.50',
    currency: 'EUR',
    instructionId: 'invoice-2049',
    idempotencyKey: 'invoice-2049',
    participantId: EXAMPLE.participantId,
    railReference: 'TX-49',
    completedAt: '2026-01-31T12:00:00.000Z',
  },
  entries: [BANK_ENTRY_EXAMPLE, { ...BANK_ENTRY_EXAMPLE, bankReference: 'BK-8842' }],
  proposalId: null,
  returnEventId: null,
  note: null,
  createdAt: EXAMPLE.at,
  closed: null,
})

/** Line of a statement in NDJSON. */
export const STATEMENT_LINE_EXAMPLE = Object.freeze({
  account: 'DE75512108001245126199',
  bankReference: 'BK-8840',
  reference: EXAMPLE.paidId,
  amount: '12.50',
  currency: 'EUR',
  bookedOn: '2026-01-31',
})

export const RECONCILED_EXAMPLE = Object.freeze({
  runId: null,
  repeated: false,
  dryRun: true,
  railType: EXAMPLE.railType,
  format: 'ndjson',
  fileSha256: EXAMPLE.hash,
  statementIds: [],
  accounts: ['DE75512108001245126199'],
  periodFrom: '2026-01-31T00:00:00.000Z',
  periodTo: '2026-02-01T00:00:00.000Z',
  settlementDays: 2,
  entries: 1,
  counts: {
    matched: 1,
    paidTwice: 0,
    paidNotRecorded: 0,
    recordedNotPaid: 0,
    amountDiffers: 0,
    reversed: 0,
    unknownEntry: 0,
  },
  otherRails: 0,
  unknownSums: {},
  findings: [],
})
