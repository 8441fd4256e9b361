import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { proposePaymentOutbox, readOutboxStatus } from '../../libs/outbox/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  buildInstruction,
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
} from '../support/outboxItems.js'
import { enqueueFailed, enqueueUnknown } from '../support/outboxPeople.js'
import { untilTableWaits } from '../support/race.js'
import { sealLedger } from '../support/sealLedger.js'

let db: TestDatabase
let folder: string
let url: string
const people = { alice: '', bob: '' }
beforeAll(async () => {
  db = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'symphony-cli-'))
  const roles = ['symphony_ingest', 'symphony_readonly', 'symphony_auditor', 'symphony_control']
  url = (await db.createLogin('cli', { roles })).url
  people.alice = (await db.createLogin('alice', { roles: ['symphony_control'] })).url
  people.bob = (await db.createLogin('bob', { roles: ['symphony_control'] })).url
})
afterAll(async () => {
  await db.drop()
  await rm(folder, { recursive: true })
})

/** Runs a command with the login `as`. */
function command(words: readonly string[], as = url): Promise<CommandOutput> {
  return symphony(words, { DATABASE_URL: as, SYMPHONY_SCHEMA: db.schema })
}

/** Returns the JSON that a command printed. Fails if it wrote to stderr or exited with an error. */
async function json(words: readonly string[], as = url): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await command([...words, '--json'], as)
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  const printed: Record<string, unknown> = JSON.parse(stdout)
  return printed
}

/** Returns the exit code and the error code of a command that fails. */
async function refusal(words: readonly string[], as = url): Promise<{ exitCode: number | string; code: unknown }> {
  const { exitCode, stderr } = await command([...words, '--json'], as)
  const { error }: { error: { code: string } } = JSON.parse(stderr)
  return { exitCode, code: error.code }
}

async function stateOf(outboxId: string): Promise<unknown> {
  const { rows } = await db.queryNoRole('SELECT state FROM outbox_operational_status WHERE outbox_id = $1', [outboxId])
  return rows[0]?.['state']
}

/** Writes a new file and returns its path. */
async function file(content: string): Promise<string> {
  const path = join(folder, `${randomUUID()}.ndjson`)
  await writeFile(path, content)
  return path
}

test('symphony contradictions list refuses --before without an id with a usage error', async () => {
  const { exitCode, stderr } = await command(['contradictions', 'list', '--before', 'x'])
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining('before: expected a UUID') })
})

describe('symphony enqueue', () => {
  const payload = '{"amount":"12.50","currency":"EUR"}'

  test('enqueues one payment by options; a repeat changes nothing; other content is refused', async () => {
    const instruction = `INV-${randomUUID()}`
    const words = ['enqueue', '--instruction', instruction, '--participant', 'acme', '--rail', 'sepa', '--payload']
    const first = await json([...words, payload])
    expect(first).toMatchObject({ instructionId: instruction, state: 'PENDING', created: true })
    expect(await json([...words, payload])).toEqual({ ...first, created: false })
    expect(await refusal([...words, '{"amount":"12.51"}'])).toEqual({ exitCode: 1, code: 'IDEMPOTENCY_CONFLICT' })
    expect((await command([...words, payload])).stdout).toContain(`${instruction} already existed and is PENDING`)
  })

  test('stores --key, --not-before and --ordered in the queue', async () => {
    const instruction = `INV-${randomUUID()}`
    const words = ['enqueue', '--instruction', instruction, '--participant', instruction, '--rail', 'sepa']
    const options = ['--key', 'key-7', '--not-before', '2099-01-01T00:00:00Z', '--ordered', '--payload', payload]
    await json([...words, ...options])
    const { rows } = await db.queryNoRole(
      'SELECT idempotency_key, ordered, next_attempt_at FROM payment_outbox_pending WHERE instruction_id = $1',
      [instruction],
    )
    expect(rows).toEqual([
      { idempotency_key: 'key-7', ordered: true, next_attempt_at: new Date('2099-01-01T00:00:00Z') },
    ])
  })

  test.each([
    [['--participant', 'p', '--rail', 'r', '--payload', '{}'], '--instruction: expected an id'],
    [['--instruction', 'i', '--participant', 'p', '--rail', 'r'], '--payload: expected a JSON object'],
    [['--instruction', 'i', '--participant', 'p', '--rail', 'r', '--payload', '{"a":1,"a":2}'], '--payload'],
    [['--instruction', 'i', '--participant', 'p', '--rail', 'r', '--payload', '[]'], 'payload: expected an object'],
    [['--instruction', 'a b', '--participant', 'p', '--rail', 'r', '--payload', '{}'], 'instructionId'],
    [['--file', 'x', '--rail', 'r'], '--rail: expected either this or --file'],
    [['--file', 'x', '--not-before', '2026-01-31T12:00:00Z'], '--not-before: expected either this or --file'],
    [['--file', '/nowhere/at/all'], '/nowhere/at/all cannot be read'],
    [['--file', '/'], 'expected a file, got a folder'],
  ])('refuses %j with a usage error that names the option', async (words, message) => {
    const { exitCode, stderr } = await command(['enqueue', ...words])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })

  test('enqueues a file of 1200 lines with one duplicate; a second run changes nothing', async () => {
    const participantId = `participant-${randomUUID()}`
    const line = (number: number) =>
      JSON.stringify({ instructionId: `${participantId}-${number}`, participantId, railType: 'sepa', payload: {} })
    const lines = Array.from({ length: 1_199 }, (_, index) => line(index))
    const path = await file([...lines, '', line(7), ''].join('\n'))
    const warnings = [expect.objectContaining({ code: 'RAIL_NOT_SERVED' })]
    expect(await json(['enqueue', '--file', path])).toEqual({ read: 1_200, created: 1_199, existing: 1, warnings })
    expect(await json(['enqueue', '--file', path])).toEqual({ read: 1_200, created: 0, existing: 1_200, warnings })
    const { rows } = await db.queryNoRole(
      'SELECT count(*)::int AS items, max(sequence_id)::int AS last FROM payment_outbox_identities WHERE participant_id = $1',
      [participantId],
    )
    expect(rows).toEqual([{ items: 1_199, last: 1_199 }])
  })

  test.each([
    ['no JSON', '{"instructionId":', 'line 2: not JSON'],
    ['an unknown field', '{"instructionId":"x","amount":1}', 'line 2, amount: unknown field'],
    ['a key twice', '{"instructionId":"x","instructionId":"y"}', 'line 2'],
  ])(
    'refuses a line with %s; the error names the line, and no line of its batch is enqueued',
    async (_, bad, message) => {
      const instruction = buildInstruction()
      const path = await file(`${JSON.stringify(instruction)}\n${bad}\n`)
      const { exitCode, stderr } = await command(['enqueue', '--file', path])
      expect(exitCode).toBe(2)
      expect(stderr).toContain(message)
      expect((await command(['show', instruction.instructionId])).exitCode).toBe(1)
    },
  )

  test('exits with 1 if a line is invalid after earlier lines were enqueued, and names the rest', async () => {
    const instructions = Array.from({ length: 502 }, () => buildInstruction())
    const lines = instructions.map((one) => JSON.stringify(one)).with(501, '{"instructionId":')
    const { exitCode, stderr } = await command(['enqueue', '--file', await file(lines.join('\n'))])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('line 502: not JSON')
    expect(stderr).toContain('The lines 501 to 502 were not enqueued; the lines before them were.')
    expect((await command(['show', instructions[499]!.instructionId])).exitCode).toBe(0)
    expect((await command(['show', instructions[500]!.instructionId])).exitCode).toBe(1)
  })

  test('names the line of a conflict and the lines that were not enqueued', async () => {
    const known = await enqueue(db)
    const others = [buildInstruction(), buildInstruction()].map((one) => JSON.stringify(one))
    const { instructionId, participantId, idempotencyKey, railType } = known
    const changed = JSON.stringify({ instructionId, participantId, idempotencyKey, railType, payload: { other: true } })
    const path = await file([others[0], '', changed, others[1]].join('\n'))
    const { exitCode, stderr } = await command(['enqueue', '--file', path])
    expect(exitCode).toBe(1)
    expect(stderr).toContain('IDEMPOTENCY_CONFLICT line 3:')
    expect(stderr).toContain('The lines 1 to 4 were not enqueued')
  })
})

describe('symphony status', () => {
  test('prints the values of supervisor_outbox_status as JSON and as text', async () => {
    await enqueue(db)
    const { rows } = await db.queryNoRole<{ pending_count: bigint }>(
      'SELECT pending_count FROM supervisor_outbox_status',
    )
    const pending = String(rows[0]?.pending_count)
    expect(await json(['status'])).toMatchObject({ pendingCount: pending, expiredLeaseCount: '0' })
    expect((await command(['status'])).stdout).toMatch(new RegExp(`^pending +${pending} `, 'm'))
  })

  test('says how old the stored counts of a large queue are', async () => {
    await enqueue(db)
    expect((await command(['status'])).stdout).not.toContain('; counted')
    await db.queryNoRole('SELECT count_outbox_queue(1)')
    await db.queryNoRole(`UPDATE outbox_queue_counts SET counted_at = now() - interval '3 seconds'`)
    const { stdout } = await command(['status'])
    await db.queryNoRole('UPDATE outbox_queue_counts SET parts = NULL')
    expect(stdout).toMatch(/^pending .*; counted \d+ s ago$/m)
  })

  test('--watch prints at least one status and exits with 0 when it is stopped', async () => {
    const stopping = new AbortController()
    const watching = symphony(
      ['status', '--watch', '--json', '--database-url', url, '--schema', db.schema],
      {},
      stopping.signal,
    )
    stopping.abort()
    const { exitCode, stdout } = await watching
    expect(exitCode).toBe(0)
    expect(stdout.trim().split('\n').length).toBeGreaterThanOrEqual(1)
  })
})

test('status and show report an unknown outcome separately from other retries', async () => {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, { state: 'RETRYABLE', errorCode: 'RAIL_TIMEOUT', outcomeUnknown: true })
  const shown = await command(['show', lease.instructionId])
  expect(shown.stdout).toMatch(/SCHEDULED, OUTCOME UNKNOWN: the rail may have paid/)
  expect(shown.stdout).toMatch(/attempt 1 RETRYABLE \(sent, OUTCOME UNKNOWN: the rail may have paid\): RAIL_TIMEOUT/)
  const { outcomeUnknownCount } = await readOutboxStatus(db.as('symphony_readonly'))
  expect((await command(['status'])).stdout).toMatch(
    new RegExp(`^unknown +${outcomeUnknownCount} .*may have paid`, 'm'),
  )
})

describe('symphony show', () => {
  test('prints the attempts and events of an instruction in order', async () => {
    const item = await enqueueFailed(db)
    const printed = await command(['show', item.instructionId])
    expect(printed).toMatchObject({ exitCode: 0, stderr: '' })
    expect(printed.stdout).toContain(`${item.instructionId} FAILED`)
    expect(printed.stdout).toMatch(/enqueued\n.*attempt 1 FAILED \(sent\): REFUSED/)
    expect(await json(['show', item.instructionId])).toMatchObject({
      items: [
        { outboxId: item.outboxId, state: 'FAILED', attempts: [{ attemptNo: 1, errorCode: 'REFUSED' }], events: [] },
      ],
    })
  })

  test('prints hold reason, actor and note events; "holds list" prints assignee and notes', async () => {
    const { outboxId, instructionId } = await enqueue(db)
    await command(['holds', 'place', outboxId, '--reason', 'please wait'], people.alice)
    await command(['holds', 'note', outboxId, '--note', 'asked the bank', '--assignee', 'bob'], people.alice)
    const { stdout } = await command(['show', instructionId])
    expect(stdout).toMatch(/NOTE_ADDED by alice_\S+ .*asked the bank/)
    const held = await command(['holds', 'list'])
    expect(held.stdout).toMatch(/assigned to bob\n +note by alice_\S+, \S+: asked the bank/)
    expect((await command(['holds', 'list', '--assignee', 'bob'])).stdout).toContain(outboxId)
    expect((await command(['holds', 'list', '--assignee', 'alice'])).stdout).not.toContain('assigned to')
    await command(['holds', 'note', outboxId, '--note', 'nobody for now', '--assignee', ''], people.alice)
    expect((await command(['holds', 'list'])).stdout).not.toContain('assigned to')
    expect((await command(['holds', 'note', outboxId], people.alice)).stderr).toContain('--note: expected')
    expect(stdout).toContain('held           please wait (by alice')
    expect(stdout).toMatch(/HOLD_PLACED by alice_\S+ .*please wait/)
  })

  test('prints queue and ledger of one moment while a worker completes the payment', async () => {
    const first = await enqueue(db)
    const { instructionId, railType } = await enqueue(db, { instructionId: first.instructionId })
    const lease = await claimOnly(db, first.railType)
    await claimOnly(db, railType)
    const locker = await db.connect()
    // Blocks the command after it has read the attempts of the newer item, before it reads those of the older one.
    await locker.query('BEGIN; LOCK TABLE reconciliation_entries IN ACCESS EXCLUSIVE MODE')
    const showing = json(['show', instructionId])
    await untilTableWaits(db, 'reconciliation_entries')
    await complete(db, lease, { state: 'DISPATCHED', railReference: 'TX-1' })
    await locker.query('COMMIT')
    expect(await showing).toMatchObject({ items: [{}, { outboxId: first.outboxId, state: 'LEASED', attempts: [] }] })
  })

  test('finds an item by its outbox id, and an instruction whose id is a UUID', async () => {
    const instructionId = randomUUID()
    const { outboxId } = await enqueue(db, { instructionId })
    expect(await json(['show', outboxId])).toMatchObject({ items: [{ outboxId, instructionId }] })
    expect(await json(['show', instructionId])).toMatchObject({ items: [{ outboxId, instructionId }] })
  })

  test('exits with 1 for an unknown id (ITEM_NOT_FOUND)', async () => {
    expect(await refusal(['show', 'unknown'])).toEqual({ exitCode: 1, code: 'ITEM_NOT_FOUND' })
    expect(await refusal(['show', randomUUID()])).toEqual({ exitCode: 1, code: 'ITEM_NOT_FOUND' })
  })
})

describe('symphony holds', () => {
  test('places and lists a hold; one person resolves it with RETRY if the outcome is known', async () => {
    const { outboxId, railType } = await enqueue(db)
    await json(['holds', 'place', outboxId, '--reason', 'please wait'], people.alice)
    expect(await claim(db, railType)).toEqual([])
    const { held } = await json(['holds', 'list'], people.bob)
    expect(held).toContainEqual(expect.objectContaining({ outboxId, holdReason: 'please wait', proposal: null }))
    const resolve = ['holds', 'resolve', outboxId, '--decision', 'retry', '--reason', 'go on']
    expect(await json(resolve, people.alice)).toMatchObject({ status: 'APPLIED', proposalId: null })
    expect(await claim(db, railType)).toHaveLength(1)
  })

  test('resolves an unknown outcome only after another person approves (else APPROVAL_REQUIRED)', async () => {
    const { outboxId } = await enqueueUnknown(db)
    const words = ['holds', 'resolve', outboxId, '--decision', 'dispatched', '--reason', 'seen at the bank']
    const { status, proposalId } = await json([...words, '--rail-reference', 'TX-17'], people.alice)
    expect(status).toBe('PROPOSED')
    const approve = ['approve', String(proposalId)]
    expect(await refusal(approve, people.alice)).toEqual({ exitCode: 1, code: 'APPROVAL_REQUIRED' })
    expect(await stateOf(outboxId)).toBe('HELD')
    const listed = await command(['holds', 'list'], people.bob)
    expect(listed.stdout).toContain(`symphony approve ${String(proposalId)}`)
    expect(await json([...approve, '--dry-run'], people.bob)).toMatchObject({ proposalId, decision: 'DISPATCHED' })
    expect(await stateOf(outboxId)).toBe('HELD')
    expect(await json(approve, people.bob)).toMatchObject({ outboxId, decision: 'DISPATCHED' })
    expect(await attemptRows(db, outboxId)).toMatchObject([{}, { state: 'DISPATCHED', rail_reference: 'TX-17' }])
  })

  test('approve, even in a dry run, shows payment, rail, amount, hold reason and unknown outcome', async () => {
    const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
    const { outboxId, instructionId, railType } = await enqueueUnknown(db, { payload })
    const { proposalId } = await json(
      ['holds', 'resolve', outboxId, '--decision', 'retry', '--reason', 'not in the book'],
      people.alice,
    )
    const approve = ['approve', String(proposalId)]
    const facts = { instructionId, railType, outcomeUnknown: true, holdReason: 'no answer' }
    expect(await json([...approve, '--dry-run'], people.bob)).toMatchObject(facts)
    const dry = await command([...approve, '--dry-run'], people.bob)
    const done = await command(approve, people.bob)
    const payment = `${instructionId} on ${railType}: 12.50 EUR to `
    const held = /, outcome unknown, held by \S+: no answer\./
    expect(dry.stdout).toMatch(/^RETRY of \S+, proposed by \S+: not in the book\. /)
    expect(dry.stdout).toContain('If the rail has paid it already, it pays twice.')
    expect(done.stdout).toContain(`${outboxId} is decided: RETRY. `)
    for (const { stdout } of [dry, done]) {
      expect(stdout).toContain(payment)
      expect(stdout).toMatch(held)
    }
  })

  test('keeps the item held after a proposal is withdrawn; withdraw needs a reason', async () => {
    const { outboxId } = await enqueueUnknown(db)
    const { proposalId } = await json(
      ['holds', 'resolve', outboxId, '--decision', 'failed', '--reason', 'not paid'],
      people.alice,
    )
    const withdraw = ['withdraw', String(proposalId)]
    expect((await command(withdraw, people.bob)).exitCode).toBe(2)
    await json([...withdraw, '--reason', 'wait for the report'], people.bob)
    expect(await refusal(['approve', String(proposalId)], people.bob)).toEqual({ exitCode: 1, code: 'HELD' })
    expect(await refusal(['approve', String(proposalId), '--dry-run'], people.bob)).toMatchObject({
      code: 'PROPOSAL_NOT_FOUND',
    })
    expect(await stateOf(outboxId)).toBe('HELD')
  })

  test('approve --dry-run says that a payment is sent first after two approvals', async () => {
    const railType = `rail-${randomUUID()}`
    const limit = ['--kind', 'approval', '--limit', '10', '--currency', 'EUR', '--rail', railType, '--approvals', '2']
    const set = await json(['limits', 'propose', railType, ...limit, '--reason', 'x'], people.alice)
    await json(['limits', 'approve', String(set['proposalId'])], people.bob)
    const entered = buildInstruction({ railType, payload: { amount: '20', currency: 'EUR' } })
    const carol = await db.createLogin('carol', { roles: ['symphony_ingest', 'symphony_control'] })
    const { proposalId } = await proposePaymentOutbox(carol.database.as('symphony_ingest'), entered, 'by hand')
    const approve = ['approve', String(proposalId)]
    const first = await command([...approve, '--dry-run'], people.alice)
    expect(first.stdout).toContain('It would be approved once. A second person must approve it too.')
    expect(await json([...approve, '--dry-run'], people.alice)).toMatchObject({ applied: false })
    expect(await json(approve, people.alice)).toMatchObject({ applied: false })
    expect(await refusal([...approve, '--dry-run'], people.alice)).toEqual(await refusal(approve, people.alice))
    const second = await command([...approve, '--dry-run'], people.bob)
    expect(second.stdout).toMatch(/A worker would send it\.\n$/)
    expect(await json([...approve, '--dry-run'], people.bob)).toMatchObject({ applied: true })
  })

  test('resolve --dry-run says whether a second person is needed, and changes nothing', async () => {
    const { outboxId } = await enqueueUnknown(db)
    const words = ['holds', 'resolve', outboxId, '--reason', 'x', '--dry-run', '--decision']
    expect(await json([...words, 'failed'], people.alice)).toMatchObject({ possible: true, secondPerson: true })
    expect(await json([...words, 'retry'], people.alice)).toMatchObject({ possible: true, secondPerson: true })
    const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_proposals WHERE outbox_id = $1', [outboxId])
    expect(rows).toEqual([])
    const { outboxId: due } = await enqueue(db)
    const other = ['holds', 'resolve', due, '--reason', 'x', '--dry-run', '--decision', 'retry']
    expect(await refusal(other, people.alice)).toEqual({ exitCode: 1, code: 'HELD' })
  })

  test('resolve --dry-run counts what the run applies, proposes and refuses', async () => {
    const railType = `rail-${randomUUID()}`
    const limit = ['--kind', 'approval', '--limit', '10', '--currency', 'EUR', '--rail', railType, '--approvals', '2']
    const { proposalId } = await json(['limits', 'propose', railType, ...limit, '--reason', 'x'], people.alice)
    await json(['limits', 'approve', String(proposalId)], people.bob)
    const large = await enqueue(db, { railType, payload: { amount: '20', currency: 'EUR' } })
    const small = await enqueue(db, { railType, payload: { amount: '5', currency: 'EUR' } })
    await json(['holds', 'place', small.outboxId, '--reason', 'x'], people.alice)
    const { outboxId: due } = await enqueue(db)
    const decision = ['--decision', 'retry', '--reason', 'x']
    const trial = ['holds', 'resolve', large.outboxId, ...decision, '--dry-run']
    expect(await json(trial, people.alice)).toMatchObject({ possible: true, secondPerson: true })
    const words = ['holds', 'resolve', large.outboxId, small.outboxId, due, ...decision]
    const planned = await command([...words, '--dry-run'], people.alice)
    expect(planned.stdout).toContain(
      'RETRY of 3: 1 would need the approval of someone else, 1 would take effect at once, 1 would be refused.',
    )
    const done = await command(words, people.alice)
    expect(done.stdout).toContain(`RETRY of ${large.outboxId} is proposed`)
    expect(done.stdout).toContain(`The hold of ${small.outboxId} is resolved`)
    for (const { exitCode, stdout, stderr } of [planned, done]) {
      expect(exitCode).toBe(1)
      expect(stdout).toContain(`refused: HELD outbox item ${due}`)
      expect(stderr).toContain('RESOLVE_REFUSED 1 of 3')
    }
  })

  test.each([
    [['holds', 'place', randomUUID()], '--reason: expected a reason'],
    [['holds', 'resolve', randomUUID(), '--reason', 'x'], '--decision: expected dispatched, failed or retry'],
    [['holds', 'resolve', randomUUID(), '--reason', 'x', '--decision', 'maybe'], 'Allowed choices are'],
    [['holds', 'place', 'x', '--reason', 'x'], 'outboxId: expected a UUID'],
    [['pause', 'rail', 'sepa'], '--reason: expected a reason'],
    [['pause', 'country', 'x', '--reason', 'x'], 'Allowed choices are rail, participant, stream'],
  ])('refuses %j with a usage error that says what was expected', async (words, message) => {
    const { exitCode, stderr } = await command(words, people.alice)
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })

  test('refuses a login without symphony_control with an error that names the grant', async () => {
    const reader = await db.createLogin('unprivileged', { roles: ['symphony_readonly'] })
    const { exitCode, stderr } = await command(['holds', 'list'], reader.url)
    expect(exitCode).toBe(1)
    expect(stderr).toContain('may not act as symphony_control')
    expect(stderr).toContain('--create-login NAME=control')
  })
})

describe('symphony pause and resume', () => {
  test('stop and restart claims of a rail; a repeat changes nothing', async () => {
    const { railType } = await enqueue(db)
    const words = [railType, '--reason', 'maintenance']
    expect(await json(['pause', 'rail', ...words], people.alice)).toEqual({
      kind: 'rail',
      name: railType,
      changed: true,
    })
    expect(await json(['pause', 'rail', ...words], people.bob)).toMatchObject({ changed: false })
    expect(await claim(db, railType)).toEqual([])
    expect(await json(['resume', 'rail', ...words], people.bob)).toMatchObject({ changed: true })
    expect((await command(['resume', 'rail', ...words], people.bob)).stdout).toContain('was not paused')
    expect(await claim(db, railType)).toHaveLength(1)
  })
})

describe('symphony ledger verify', () => {
  test('checks the ledger and, with --book, the rail book; exits with 1 if the book differs', async () => {
    const { outboxId, railType } = await enqueue(db)
    await complete(db, await claimOnly(db, railType), { state: 'DISPATCHED', railReference: 'TX-1' })
    const { invariants } = await json(['ledger', 'verify'])
    expect(invariants).toMatchObject(['I1', 'I2', 'I6', 'I7', 'I8', 'I9', 'I11'].map((id) => ({ id, ok: true })))
    const { rows } = await db.queryNoRole<{ outbox_id: string; rail_reference: string }>(
      `SELECT outbox_id, rail_reference FROM payment_outbox_attempts WHERE state = 'DISPATCHED'`,
    )
    const lines = rows.map(({ outbox_id: reference, rail_reference: railReference }) =>
      JSON.stringify({
        reference,
        railReference,
        amount: null,
        currency: null,
        once: false,
        at: '2026-01-01T00:00:00Z',
      }),
    )
    const whole = await file(`${lines.join('\n')}\n`)
    const agreeing = await command(['ledger', 'verify', '--book', whole])
    expect(agreeing).toMatchObject({ exitCode: 0, stderr: '' })
    expect(agreeing.stdout).toMatch(/holds +I3 /)

    const twice = await command([
      'ledger',
      'verify',
      '--book',
      await file(`${lines.join('\n')}\n${lines.join('\n')}\n`),
    ])
    expect(twice).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('LEDGER_BROKEN') })
    expect(twice.stdout).toMatch(/BROKEN I4 /)

    const without = await file(`${lines.filter((line) => !line.includes(outboxId)).join('\n')}\n`)
    expect((await command(['ledger', 'verify', '--book', without])).stdout).toMatch(
      new RegExp(`BROKEN I3 .*\\n.*${outboxId}`),
    )
    expect(await refusal(['ledger', 'verify', '--book', '/nowhere'])).toEqual({ exitCode: 1, code: 'BOOK_UNREADABLE' })
  })

  test('names a row that a superuser has changed, and exits with 1', async () => {
    const own = await createTestDatabase()
    try {
      const { outboxId } = await enqueueFailed(own)
      await sealLedger(own)
      const env = { DATABASE_URL: own.url, SYMPHONY_SCHEMA: own.schema }
      expect((await symphony(['ledger', 'verify'], env)).exitCode).toBe(0)
      await own.queryNoRole('ALTER TABLE payment_outbox_attempts DISABLE TRIGGER ALL')
      await own.queryNoRole(`UPDATE payment_outbox_attempts SET error_code = 'FORGED' WHERE outbox_id = $1`, [outboxId])
      const { exitCode, stdout } = await symphony(['ledger', 'verify'], env)
      expect(exitCode).toBe(1)
      expect(stdout).toMatch(new RegExp(`BROKEN I9 .*\\n.*${outboxId}`))
    } finally {
      await own.drop()
    }
  })
})
