/** Files of a bundle. For each, the fact that it proves and the SQLSTATE by which the database refuses a violation. */
export const EVIDENCE_FILES: Readonly<Record<string, readonly [proves: string, restsOn: string]>> = Object.freeze({
  'blocks.ndjson': [
    'The head of every sealed block: what it covers, its root, its predecessor. Each hash can be recomputed from its line',
    'P0001 (a block is never changed)',
  ],
  'checkpoint-key.pem': [
    'The public key with which the checkpoints were verified. Compare it with the one you were given',
    '—',
  ],
  'checkpoints.ndjson': [
    'Signed heads of blocks, kept outside the database: history up to the last of them cannot be rewritten',
    '—',
  ],
  'columns.json': ['Every column: type, NOT NULL, default', '23502'],
  'conformance.md': ['The scenarios of the specification, and the tests that prove each, of the release at hand', '—'],
  'constraints.json': [
    'Rules for every row, whoever writes it, among them two people for a decision about money',
    '23505, 23514',
  ],
  'counts.json': [
    'Numbers of accepted, ended and pending payments, and of rows that no block covers yet (the open window)',
    '—',
  ],
  'default-privileges.json': ['Objects created later grant nothing to PUBLIC', '42501'],
  'deployments.json': [
    'Every deployment of the schema: which files, their sums, by whom, when (microseconds since 1970)',
    'P0001',
  ],
  'doctor.json': ['The live catalog is, object by object, what the release deploys; notes are listed', '—'],
  'functions.json': [
    'The definition and SHA-256 of every function: the only ways to change anything, each with a fixed search path',
    'P7001 to P7017, 22023, 40001',
  ],
  'grants.json': ['Every privilege of every role. Only the owner can write tables, and no login is the owner', '42501'],
  'indexes.json': ['Among them payment_outbox_attempts_one_terminal_per_outbox: a payment ends once', '23505'],
  'limits.json': [
    'The limits in force, and every event that proposed, set or removed one. Two people set each (times in microseconds since 1970)',
    'P7007 (the proposer cannot approve)',
  ],
  'policies.json': ['There is no row security that could hide rows from a function', '—'],
  'README.md': ['This page', '—'],
  'reconciliations.json': [
    'Every reconciliation with a bank statement: period, counts, findings with both sides, and who closed each and why',
    'P0001',
  ],
  'reconciliations.ndjson': [
    'The rows behind it: sealed events with the proof of their block, and findings. Each hash can be recomputed',
    'P0001',
  ],
  'roles.json': ['Attributes and memberships of each role, and which roles could act as the owner', '42501'],
  'rules.json': ['There is no rewrite rule that could discard a write', '—'],
  'settings.json': ['The switches of the deployment, and the settings of the server that affect durability', '—'],
  'signing-key.pem': ['The public key of the signature of the manifest. Compare it with the one you were given', '—'],
  'tables.json': ['Every table and view, its owner and options', '—'],
  'triggers.json': ['The triggers that protect the ledger. They fire always, also in replica mode', 'P0001'],
  'verification.json': [
    'The hashes of all rows and blocks, recomputed, and the invariants I1 to I11 as far as they could be checked',
    'P0001, P7002 (a stale worker changes nothing)',
  ],
  'views.json': ['What dashboards read: the definition of each view', '—'],
})

export function readmeOf(names: readonly string[]): string {
  const rows = [...names, 'README.md']
    .toSorted()
    .map((name) => `| \`${name}\` | ${EVIDENCE_FILES[name]?.join(' | ') ?? ' | '} |`)
  const unsigned = names.includes('checkpoints.ndjson')
    ? ''
    : '\nThere are no checkpoints in this bundle: a superuser of the database could have rewritten the whole ledger.\n'
  return `# Evidence

Written by \`symphony evidence\`, which writes nothing unless the schema is what was deployed and the ledger is sound. The
same state of the database gives the same bytes: the bundle contains no time of creation and nothing that depends on settings.

Check it without a database: \`symphony evidence check FOLDER\`, or \`sha256sum -c MANIFEST.sha256\`. Any changed, added or
missing byte is refused. The sums show that the folder is as it was written. The signature (\`MANIFEST.sha256.sig\`, Ed25519 over
the manifest) shows who wrote it. Without a signature, compare the sum that the command printed.
${unsigned}
| file | what it proves | SQLSTATE of the refusal it rests on |
| --- | --- | --- |
${rows.join('\n')}

Codes: P0001 APPEND_ONLY, P7001 ALREADY_TERMINAL, P7002 LEASE_LOST, P7003 INVALID_COMPLETION_STATE, P7004 IDEMPOTENCY_CONFLICT,
P7006 HELD, P7007 APPROVAL_REQUIRED, P7008 RETRY_CEILING, 22023 invalid_parameter_value, 23502 not_null_violation,
23505 unique_violation, 23514 check_violation, 40001 serialization_failure, 42501 insufficient_privilege.
`
}
