/** Every file of a bundle: what it proves, and the SQLSTATE with which the database refuses the contrary. */
export const EVIDENCE_FILES: Readonly<Record<string, readonly [proves: string, restsOn: string]>> = Object.freeze({
  'blocks.ndjson': [
    'The head of every sealed block: what it covers, its root, its predecessor. Each hash can be computed again from its line',
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
    'What no row may be, whoever writes it. Two people for a decision about money is one of them',
    '23505, 23514',
  ],
  'counts.json': [
    'How many payments were accepted, ended and wait; how many rows no block covers yet (the open window)',
    '—',
  ],
  'default-privileges.json': ['Nothing created later is open to everybody', '42501'],
  'deployments.json': [
    'Every deployment of the schema: which files, their sums, by whom, when (microseconds since 1970)',
    'P0001',
  ],
  'doctor.json': ['The live catalog is, object by object, what the release deploys; and what is worth mentioning', '—'],
  'functions.json': [
    'The definition and SHA-256 of every function: the only ways to change anything, each with a fixed search path',
    'P7001 to P7012, 22023, 40001',
  ],
  'grants.json': [
    'Every right of every role. No role but the owner can write a table, and nobody logs in as the owner',
    '42501',
  ],
  'indexes.json': ['Among them payment_outbox_attempts_one_terminal_per_outbox: a payment ends once', '23505'],
  'policies.json': ['There is no row security that could hide rows from a function', '—'],
  'README.md': ['This page', '—'],
  'roles.json': ['What each role is and may become; who could act as the owner', '42501'],
  'rules.json': ['There is no rewrite rule that could turn a write into nothing', '—'],
  'settings.json': [
    'The switches of the deployment, and the settings of the server that decide whether a commit lasts',
    '—',
  ],
  'signing-key.pem': ['The public key of the signature of the manifest. Compare it with the one you were given', '—'],
  'tables.json': ['Every table and view, its owner and options', '—'],
  'triggers.json': ['The guards of the ledger, which fire always, replica mode included', 'P0001'],
  'verification.json': [
    'Every hash of every row and block, computed again from its text, and the invariants I1 to I10 as far as they could be judged',
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
    : '\nThere are no checkpoints in this bundle: whoever can write to the database as a superuser could have rewritten all of it.\n'
  return `# Evidence

Written by \`symphony evidence\`, which writes nothing unless the schema is what was deployed and the ledger holds. The same
state of the database gives the same bytes: there is no time of making in here, and nothing that depends on a setting.

Check it without a database: \`symphony evidence check FOLDER\`, or \`sha256sum -c MANIFEST.sha256\`. Any changed, added or
missing byte is refused. The sums say that the folder is as it was written; who wrote it is said by the signature, if there is
one (\`MANIFEST.sha256.sig\`, Ed25519 over the manifest), and otherwise by the sum that the command printed.
${unsigned}
| file | what it proves | SQLSTATE of the refusal it rests on |
| --- | --- | --- |
${rows.join('\n')}

Codes: P0001 APPEND_ONLY, P7001 ALREADY_TERMINAL, P7002 LEASE_LOST, P7003 INVALID_COMPLETION_STATE, P7004 IDEMPOTENCY_CONFLICT,
P7006 HELD, P7007 APPROVAL_REQUIRED, P7008 RETRY_CEILING, 22023 invalid_parameter_value, 23502 not_null_violation,
23505 unique_violation, 23514 check_violation, 40001 serialization_failure, 42501 insufficient_privilege.
`
}
