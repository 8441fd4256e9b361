import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { readDispatchEpoch, setParticipantOutboxPolicy } from '../../libs/outbox/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { forgetEpochs } from '../support/outboxEpochs.js'
import { claim, claimOnly, complete, enqueue, type Enqueued } from '../support/outboxItems.js'
import { enqueueFailed, enqueuePaid, enqueueUnknown } from '../support/outboxPeople.js'

const db = await useTestDatabase()
let reader: string
const people = { alice: '', bob: '' }
beforeAll(async () => {
  const roles = ['symphony_readonly', 'symphony_auditor']
  reader = (await db.createLogin('reader', { roles })).url
  people.alice = (await db.createLogin('alice', { roles: ['symphony_control', 'symphony_readonly'] })).url
  people.bob = (await db.createLogin('bob', { roles: ['symphony_control'] })).url
})

function command(words: readonly string[], as = people.alice): Promise<CommandOutput> {
  return symphony(words, { DATABASE_URL: as, SYMPHONY_SCHEMA: db.schema })
}

interface Printed {
  readonly items: readonly { readonly outboxId: string }[]
  readonly held: readonly { readonly outboxId: string }[]
  readonly proposed: readonly { readonly outboxId: string; readonly proposalId: string }[]
  readonly refused: readonly unknown[]
  readonly next: string | null
  readonly [key: string]: unknown
}

/** Returns the JSON that a command printed. Fails if it wrote to stderr or exited with an error. */
async function json(words: readonly string[], as = people.alice): Promise<Printed> {
  const { exitCode, stdout, stderr } = await command([...words, '--json'], as)
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  const printed: Printed = JSON.parse(stdout)
  return printed
}

const idsOf = (items: readonly { readonly outboxId: string }[]) => items.map(({ outboxId }) => outboxId)

async function failed(count: number, railType = `rail-${randomUUID()}`): Promise<Enqueued[]> {
  const items: Enqueued[] = []
  for (let index = 0; index < count; index += 1) items.push(await enqueueFailed(db, { railType }))
  return items
}

/** Lets Alice propose the decision of a command, and Bob approve it. */
async function agreed(words: readonly string[]): Promise<void> {
  const { proposalId } = await json(words)
  await json(['approve', String(proposalId)], people.bob)
}

describe('symphony cancel', () => {
  test('cancels a payment by its id or instruction; --dry-run changes nothing', async () => {
    const [first, second] = [await enqueue(db), await enqueue(db)]
    const reason = ['--reason', 'the order was cancelled']
    expect(await json(['cancel', first.outboxId, ...reason, '--dry-run'])).toEqual({
      outboxId: first.outboxId,
      possible: true,
    })
    expect(await json(['cancel', first.outboxId, ...reason])).toMatchObject({ outboxId: first.outboxId })
    const key = ['--instruction', second.instructionId, '--key', second.idempotencyKey]
    expect((await command(['cancel', ...key, ...reason])).stdout).toContain(`${second.outboxId} is cancelled`)
    const { stdout } = await command(['show', first.outboxId])
    expect(stdout).toContain('attempt 1 FAILED (cancelled, nothing sent): CANCELLED, the order was cancelled, by alice')
    const again = await command(['cancel', first.outboxId, ...reason, '--dry-run'])
    expect(again.exitCode).not.toBe(0)
    expect(again.stderr).toContain('NOT_CANCELLABLE')
  })

  test('requires a reason, and either an id or --instruction', async () => {
    const { outboxId, instructionId } = await enqueue(db)
    for (const words of [
      ['cancel', '--reason', 'x'],
      ['cancel', outboxId, '--instruction', instructionId, '--reason', 'x'],
      ['cancel', outboxId],
    ]) {
      expect((await command(words)).exitCode).toBe(2)
    }
  })
})

describe('symphony dlq list', () => {
  test('lists failed payments with their error, latest first, in pages', async () => {
    const items = await failed(3)
    const railType = items[0]!.railType
    const first = await json(['dlq', 'list', '--rail', railType, '--limit', '2'])
    expect(idsOf(first.items)).toEqual([items[2]!.outboxId, items[1]!.outboxId])
    expect(first.items[0]).toMatchObject({ errorCode: 'REFUSED', attempts: 1, redrivenAs: null, proposalId: null })
    const second = await json(['dlq', 'list', '--rail', railType, '--limit', '2', '--before', first.next!])
    expect({ ids: idsOf(second.items), next: second.next }).toEqual({ ids: [items[0]!.outboxId], next: null })
    const csv = (await command(['dlq', 'list', '--rail', railType, '--limit', '2', '--format', 'csv'])).stdout
    const [header, ...rows] = csv.trimEnd().split('\r\n')
    expect(header).toMatch(/^outboxId,instructionId,/)
    expect(rows.map((row) => row.split(',')[0])).toEqual([...idsOf(first.items), ...idsOf(second.items)])
    const lines = (await command(['dlq', 'list', '--rail', railType, '--format', 'ndjson'])).stdout
      .trimEnd()
      .split('\n')
    expect(lines.map((line): unknown => JSON.parse(line))).toEqual([...first.items, ...second.items])
    const text = await command(['dlq', 'list', '--rail', railType, '--limit', '2'])
    expect(text.stdout).toContain(`${items[2]!.outboxId} ${items[2]!.instructionId} on ${railType}`)
    expect(text.stdout).toContain('attempt 1: REFUSED')
    expect(text.stderr).toContain(`add --before ${first.next}`)
  })

  test('filters by participant, error code and time, and lists no dispatched payment', async () => {
    const [one, other] = await failed(2)
    const { railType } = one!
    const list = async (...words: string[]) => idsOf((await json(['dlq', 'list', '--rail', railType, ...words])).items)
    expect(await list('--participant', one!.participantId)).toEqual([one!.outboxId])
    expect(await list('--error-code', 'REFUSED')).toEqual([other!.outboxId, one!.outboxId])
    expect(await list('--error-code', 'OTHER')).toEqual([])
    expect(await list('--since', '2020-01-01T00:00:00Z')).toHaveLength(2)
    expect(await list('--since', '2099-01-01T00:00:00Z')).toEqual([])
    expect(await list('--until', '2020-01-01T00:00:00+01:00')).toEqual([])
    const pending = await enqueue(db, { railType })
    await complete(db, await claimOnly(db, pending.railType), { state: 'DISPATCHED', railReference: 'ref' })
    expect(await list()).toHaveLength(2)
  })

  test.for([
    [['--since', 'yesterday'], '--since: expected a time with its zone'],
    [['--limit', '0'], 'limit: expected a whole number from 1 to 1000'],
    [['--before', 'x'], 'before'],
    [['--rail', 'a b'], 'railType'],
  ] as const)('refuses %j with a usage error that names the option', async ([words, message]) => {
    const { exitCode, stderr } = await command(['dlq', 'list', ...words])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('symphony redrive', () => {
  test('proposes a redrive of one payment after a dry run; a second person approves it', async () => {
    const [item] = await failed(1)
    const { outboxId, railType } = item!
    expect(await json(['redrive', outboxId, '--dry-run'])).toMatchObject({ possible: true, secondPerson: true })
    const proposed = await json(['redrive', outboxId, '--reason', 'account opened'])
    const proposalId = String(proposed['proposalId'])
    expect(proposed).toMatchObject({ status: 'PROPOSED' })
    expect((await command(['dlq', 'list', '--rail', railType])).stdout).toContain(`symphony approve ${proposalId}`)
    expect((await json(['dlq', 'list', '--rail', railType, '--open'])).items).toEqual([])
    expect((await command(['approve', proposalId])).stderr).toContain('APPROVAL_REQUIRED')
    const approved = await json(['approve', proposalId], people.bob)
    expect(approved).toMatchObject({ decision: 'REDRIVE', outboxId })
    expect(idsOf(await claim(db, railType))).toEqual([approved['redrivenAs']])
    expect((await command(['dlq', 'list', '--rail', railType])).stdout).toContain(
      `as ${String(approved['redrivenAs'])}`,
    )
  })

  test('--dry-run refuses with the error of the run if the payment cannot be redriven', async () => {
    const { outboxId } = (await failed(1))[0]!
    const cancelled = await enqueue(db)
    await json(['cancel', cancelled.outboxId, '--reason', 'r'])
    await json(['redrive', outboxId, '--reason', 'r'])
    for (const id of [outboxId, cancelled.outboxId, (await enqueue(db)).outboxId]) {
      const words = ['redrive', id, '--reason', 'r']
      const refused = await command(words)
      expect(refused.exitCode).toBe(1)
      expect(await command([...words, '--dry-run'])).toEqual(refused)
    }
  })

  test('--all-matching skips payments that have an open proposal; approve takes several ids', async () => {
    const items = await failed(3)
    const { railType } = items[0]!
    await json(['redrive', items[0]!.outboxId, '--reason', 'first'])
    const words = ['redrive', '--all-matching', '--rail', railType]
    expect(await json([...words, '--dry-run'])).toMatchObject({
      outboxIds: [items[2]!.outboxId, items[1]!.outboxId],
      secondPerson: true,
    })
    const { proposed, refused } = await json([...words, '--reason', 'OPS-812'])
    expect(idsOf(proposed)).toEqual([items[2]!.outboxId, items[1]!.outboxId])
    expect(refused).toEqual([])
    const { stdout, exitCode } = await command(['approve', ...proposed.map(({ proposalId }) => proposalId)], people.bob)
    expect(exitCode).toBe(0)
    expect(stdout.trim().split('\n')).toHaveLength(2)
    expect(await claim(db, railType)).toHaveLength(2)
    expect(await json([...words, '--dry-run'])).toMatchObject({ outboxIds: [] })
  })

  test('--all-matching names the payments that it refuses (HELD) and proposes the rest', async () => {
    const [one, other] = await failed(2)
    const { railType } = one!
    // A worker reported late that the rail paid the item.
    await db.queryNoRole(
      `INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor, detail)
       VALUES (gen_random_uuid(), $1, 99, 'TERMINAL_BLOCKED', 'w', '{"state": "DISPATCHED"}')`,
      [one!.outboxId],
    )
    const words = ['redrive', '--all-matching', '--rail', railType]
    const planned = await command([...words, '--dry-run'])
    expect(planned.stdout).toContain(`${other!.outboxId}\n`)
    expect(planned.stdout).toContain('1 redrive would be proposed.')
    const proposed = await command([...words, '--reason', 'r'])
    expect(proposed.stdout).toContain(`${other!.outboxId}: symphony approve`)
    for (const { exitCode, stdout, stderr } of [planned, proposed]) {
      expect(exitCode).toBe(1)
      expect(stdout).toContain(`refused: HELD outbox item ${one!.outboxId}`)
      expect(stderr).toContain('REDRIVE_REFUSED 1 of 2')
    }
  })

  test.for([
    [['--reason', 'r'], 'outbox-id: expected the id of one failed payment, or --all-matching'],
    [['01981', '--all-matching', '--rail', 'r'], 'outbox-id'],
    [['--all-matching', '--reason', 'r'], '--all-matching: expected at least one filter'],
    [[randomUUID()], '--reason: expected a reason'],
    [['01981', '--dry-run', '--error-code', 'E'], '--error-code: expected no filter beside an id'],
    [['01981', '--dry-run', '--since', '2026-01-31T08:00:00Z'], '--since: expected no filter beside an id'],
  ] as const)('refuses %j with a usage error that says what was expected', async ([words, message]) => {
    const { exitCode, stderr } = await command(['redrive', ...words])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('filters of lists and of bulk decisions', () => {
  const decision = ['--decision', 'failed', '--reason', 'r']

  test.for([
    [['holds', 'list']],
    [['holds', 'resolve', '--all', '--yes', ...decision]],
    [['dlq', 'list']],
    [['redrive', '--all-matching', '--reason', 'r']],
  ] as const)('refuse a misspelt rail or participant (UNKNOWN_NAME): %j', async ([words]) => {
    const { railType } = await enqueue(db)
    const [ended] = await failed(1)
    const { participantId } = ended!
    for (const [option, name] of [
      ['--rail', railType],
      ['--rail', ended!.railType],
      ['--participant', participantId],
    ] as const) {
      const { exitCode, stdout, stderr } = await command([...words, option, `${name}x`], people.bob)
      expect({ exitCode, stdout }).toEqual({ exitCode: 1, stdout: '' })
      expect(stderr).toContain('UNKNOWN_NAME')
      expect(stderr).toContain(`Did you mean ${name}?`)
      expect(stderr).not.toMatch(/paus/)
    }
  })

  test('accept a rail that has only failed payments, even if no item matches the filter', async () => {
    const [item] = await failed(1)
    const rail = ['--rail', item!.railType]
    expect((await command(['holds', 'list', ...rail])).stdout).toContain('No payment is held.')
    expect((await command(['dlq', 'list', ...rail, '--error-code', 'OTHER'])).stdout).toContain(
      'No failed payment matches',
    )
    const resolved = await command(['holds', 'resolve', '--all', ...rail, '--yes', ...decision])
    expect(resolved).toEqual({ exitCode: 0, stdout: 'No held payment matches.\n', stderr: '' })
  })
})

describe('symphony', () => {
  test.for([
    ['approve', [], 'APPROVE_REFUSED', 'is redriven as'],
    ['withdraw', ['--reason', 'r'], 'WITHDRAW_REFUSED', 'is withdrawn'],
  ] as const)('%s continues after a refusal and names each refused id', async ([verb, more, code, done]) => {
    const [item] = await failed(2)
    const { proposed } = await json(['redrive', '--all-matching', '--rail', item!.railType, '--reason', 'r'])
    const [first, last] = proposed
    const unknown = randomUUID()
    const ids = [first!.proposalId, unknown, 'BAD', last!.proposalId]
    const { exitCode, stdout, stderr } = await command([verb, ...ids, ...more], people.bob)
    expect(exitCode).toBe(1)
    expect(stdout.trim().split('\n')).toEqual([
      expect.stringContaining(done),
      expect.stringMatching(new RegExp(`^${unknown} is refused: INVALID_PARAMETER `)),
      expect.stringMatching(/^BAD is refused: INVALID_ARGUMENT /),
      expect.stringContaining(done),
    ])
    expect(stderr).toContain(`${code} 2 of 4 were refused`)
  })

  test('approve prints a refusal once, with its remedy (APPROVAL_REQUIRED, HELD)', async () => {
    const [item] = await failed(1)
    const { proposalId } = await json(['redrive', item!.outboxId, '--reason', 'account opened'])
    const id = String(proposalId)
    expect((await command(['approve', id])).stderr).toMatch(
      new RegExp(`^error APPROVAL_REQUIRED proposal ${id}: .*\\n  what to do Another person must .*\\n$`),
    )
    await json(['approve', id], people.bob)
    expect((await command(['approve', id], people.bob)).stderr).toMatch(
      new RegExp(`^error HELD proposal ${id}: it was approved by .*\\n  what to do .*symphony show.*\\n$`),
    )
  })
})

describe('symphony holds list', () => {
  test('filters by rail, participant and time, in pages, newest first', async () => {
    const railType = `rail-${randomUUID()}`
    const items = [await enqueueUnknown(db, { railType }), await enqueueUnknown(db, { railType })]
    const first = await json(['holds', 'list', '--rail', railType, '--limit', '1'])
    expect(idsOf(first.held)).toEqual([items[1]!.outboxId])
    const second = await json(['holds', 'list', '--rail', railType, '--limit', '1', '--before', first.next!])
    expect(idsOf(second.held)).toEqual([items[0]!.outboxId])
    const words = ['holds', 'list', '--participant', items[0]!.participantId]
    expect(idsOf((await json(words)).held)).toEqual([items[0]!.outboxId])
    expect((await json([...words, '--since', '2099-01-01T00:00:00Z'])).held).toEqual([])
  })

  test('lists other proposals only of the participant of the filter, and none with another filter', async () => {
    const [one, other] = await failed(2)
    const { proposed } = await json(['redrive', '--all-matching', '--rail', one!.railType, '--reason', 'r'])
    const others = async (...words: string[]) => (await json(['holds', 'list', ...words]))['otherProposals']
    const shown = proposed.map(({ proposalId }) => expect.objectContaining({ proposalId }))
    expect(await others()).toEqual(expect.arrayContaining(shown))
    const own = ['--participant', other!.participantId]
    expect(await others(...own)).toMatchObject([{ outboxId: other!.outboxId }])
    const filters = [
      ['--rail', one!.railType],
      ['--assignee', 'bob'],
      ['--kind', 'message'],
      ['--since', '2020-01-01T00:00:00Z'],
      ['--until', '2099-01-01T00:00:00Z'],
    ]
    for (const filter of filters) expect([filter, await others(...filter)]).toEqual([filter, []])
    expect(await others(...own, '--rail', other!.railType)).toEqual([])
  })
})

describe('symphony holds resolve', () => {
  test.for([
    [['--decision', 'failed', '--rail', 'sepa'], '--rail: expected no filter beside an id'],
    [['--decision', 'retry', '--rail-reference', 'TX-1'], '--rail-reference: expected a reference only with'],
  ] as const)('refuses %j of one id with a usage error that says what was expected', async ([words, message]) => {
    const { exitCode, stderr } = await command(['holds', 'resolve', randomUUID(), '--reason', 'r', ...words])
    expect(exitCode).toBe(2)
    expect(stderr).toContain(message)
  })
})

describe('symphony return', () => {
  const money = ['--amount', '2.50', '--currency', 'EUR', '--code', 'AC04', '--reference', 'RT-17']

  test('records a return once; symphony show prints the returned sum and the event', async () => {
    const { outboxId } = await enqueuePaid(db)
    const first = await json(['return', outboxId, ...money, '--occurred-at', '2026-01-31T08:00Z'])
    expect(first).toEqual({ outboxId, eventId: expect.any(String), created: true, returnedTotal: '2.50' })
    const repeated = await command(['return', outboxId, ...money])
    expect(repeated).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('was recorded before') })
    const { stdout } = await command(['show', outboxId])
    expect(stdout).toMatch(/returned +2\.50 EUR/)
    expect(stdout).toContain('RETURN_RECORDED')
    expect(stdout).toContain('"occurred_at":"2026-01-31T08:00:00.000000Z"')
  })

  test('prints a refusal with its remedy (RETURN_EXCEEDS_PAYMENT), and names a missing option', async () => {
    const { outboxId } = await enqueuePaid(db)
    const refused = await command(['return', outboxId, ...money.with(1, '10.51')])
    expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining('RETURN_EXCEEDS_PAYMENT') })
    expect(refused.stderr).toContain(`symphony show ${outboxId}`)
    expect(await command(['return', outboxId, ...money.slice(0, 6)])).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining('--reference'),
    })
    expect(await command(['return', outboxId, ...money, '--occurred-at', 'yesterday'])).toMatchObject({
      stderr: expect.stringContaining('--occurred-at: expected a time with its zone'),
    })
  })
})

describe('symphony pause and resume', () => {
  test('say in a dry run whether the pause or resume is possible, and change nothing', async () => {
    const { railType } = await enqueue(db)
    const trial = (verb: string) => json([verb, 'rail', railType, '--reason', 'closed', '--dry-run'])
    expect([await trial('pause'), await trial('resume')]).toMatchObject([{ possible: true }, { possible: false }])
    await json(['pause', 'rail', railType, '--reason', 'closed'])
    expect([await trial('pause'), await trial('resume')]).toMatchObject([{ possible: false }, { possible: true }])
    expect(await claim(db, railType)).toEqual([])
    await json(['resume', 'rail', railType, '--reason', 'open'])
    expect(await claim(db, railType)).toHaveLength(1)
  })

  test('pause refuses a missing name, and an unknown rail (UNKNOWN_NAME) unless --force is given', async () => {
    const { railType } = await enqueue(db)
    const misspelt = railType.toUpperCase()
    for (const more of [[], ['--dry-run']]) {
      const { exitCode, stderr } = await command(['pause', 'rail', misspelt, '--reason', 'closed', ...more])
      expect(exitCode).not.toBe(0)
      expect(stderr).toContain(`Did you mean ${railType}?`)
      expect(stderr).toContain('UNKNOWN_NAME')
    }
    expect(await json(['pause', 'rail', misspelt, '--reason', 'closed', '--force'])).toMatchObject({ changed: true })
    expect(await json(['resume', 'rail', misspelt, '--reason', 'open'])).toMatchObject({ changed: true })
    const unnamed = await command(['pause', 'rail', '--reason', 'closed'])
    expect(unnamed.stderr).toContain('expected the name of the rail')
  })

  test('resume, even in a dry run, names the failed payment that halted the stream', async () => {
    const participantId = `halting-${randomUUID()}`
    const railType = `ordered-${randomUUID()}`
    await setParticipantOutboxPolicy(db.as('symphony_control'), participantId, 'halt')
    const first = await enqueue(db, { participantId, railType, ordered: true })
    const second = await enqueue(db, { participantId, railType, ordered: true })
    await enqueue(db, { participantId, railType, ordered: true })
    const [lease] = await claim(db, railType)
    await complete(db, lease!, { state: 'FAILED', errorCode: 'NO' })
    await json(['cancel', second.outboxId, '--reason', 'the order was cancelled'])
    const resume = (...more: string[]) =>
      command(['resume', 'stream', participantId, '--reason', 'the bank agreed', ...more])
    for (const { stdout } of [await resume('--dry-run'), await resume()])
      expect(stdout).toContain(`${first.instructionId} (${first.outboxId}) failed and was not redriven`)
    expect(await claim(db, railType)).toHaveLength(1)
    const late = await command(['redrive', first.outboxId, '--reason', 'again'])
    expect(late.stderr).toContain('was sent already')
  })

  test('resume names a payment that failed while an operator had paused its halting stream', async () => {
    const participantId = `halting-${randomUUID()}`
    const railType = `ordered-${randomUUID()}`
    await setParticipantOutboxPolicy(db.as('symphony_control'), participantId, 'halt')
    const { outboxId, instructionId } = await enqueue(db, { participantId, railType, ordered: true })
    const lease = await claimOnly(db, railType)
    const words = ['stream', participantId, '--reason', 'a dispute']
    await json(['pause', ...words])
    await complete(db, lease, { state: 'FAILED', errorCode: 'NO' })
    const skipped = `${instructionId} (${outboxId}) failed and was not redriven`
    expect((await command(['resume', ...words, '--dry-run'])).stdout).toContain(skipped)
    await json(['resume', ...words])
    await json(['pause', ...words])
    expect((await command(['resume', ...words])).stdout).not.toContain(skipped)
  })

  test('resume names the payment that halted the stream before one that people failed later', async () => {
    const participantId = `halting-${randomUUID()}`
    const railType = `ordered-${randomUUID()}`
    await setParticipantOutboxPolicy(db.as('symphony_control'), participantId, 'halt')
    const first = await enqueue(db, { participantId, railType, ordered: true })
    const second = await enqueue(db, { participantId, railType, ordered: true })
    await complete(db, await claimOnly(db, railType), { state: 'FAILED', errorCode: 'NO' })
    await json(['holds', 'place', second.outboxId, '--reason', 'please wait'])
    await agreed(['holds', 'resolve', second.outboxId, '--decision', 'failed', '--reason', 'the order was cancelled'])
    const resume = ['resume', 'stream', participantId, '--reason', 'a dispute', '--dry-run']
    expect((await command(resume)).stdout).toContain(`${first.instructionId} (${first.outboxId}) failed`)
    await agreed(['redrive', first.outboxId, '--reason', 'corrected'])
    expect((await command(resume)).stdout).toContain(`${second.instructionId} (${second.outboxId}) failed`)
  })

  test('pause stream says, even in a dry run, that only ordered payments wait', async () => {
    const { participantId, railType } = await enqueue(db)
    const pause = ['pause', 'stream', participantId, '--reason', 'a dispute']
    for (const words of [[...pause, '--dry-run'], pause]) {
      const { stdout } = await command(words)
      expect(stdout).toContain('Only its ordered payments wait.')
      expect(stdout).toContain(`symphony pause participant ${participantId}`)
    }
    expect(await claim(db, railType)).toHaveLength(1)
  })

  test('status and show print the pauses that stop a payment, with person, time and reason', async () => {
    const { railType, participantId, instructionId } = await enqueue(db, { ordered: true })
    const names = { rail: railType, participant: participantId, stream: participantId }
    for (const [kind, name] of Object.entries(names)) {
      expect((await command(['show', instructionId], reader)).stdout).not.toMatch(/paused/)
      await command(['pause', kind, name, '--reason', 'a dispute'])
      const line = new RegExp(`The ${kind} ${name} is paused since \\d{4}-.* by \\S+: a dispute`)
      expect((await command(['status'], reader)).stdout).toMatch(line)
      expect((await json(['status'], reader))['pauses']).toContainEqual(expect.objectContaining({ kind, name }))
      const shown = (await command(['show', instructionId], reader)).stdout
      expect(shown).toMatch(line)
      expect(shown.split('\n')[0]).toMatch(/(?:DUE|BLOCKED), paused$/)
      expect(await json(['show', instructionId], reader)).toMatchObject({ items: [{ pauses: [{ kind, name }] }] })
      await command(['resume', kind, name, '--reason', 'settled'])
    }
    const unordered = await enqueue(db, { participantId })
    await command(['pause', 'stream', participantId, '--reason', 'a dispute'])
    expect((await command(['show', unordered.instructionId], reader)).stdout).not.toMatch(/paused/)
    await command(['resume', 'stream', participantId, '--reason', 'settled'])
  })

  test('stop and restart all claims with "all"; status reports the pause', async () => {
    const { railType } = await enqueue(db)
    const paused = await command(['pause', 'all', '--reason', 'reconciliation'])
    expect(paused.stdout).toBe('Everything is paused.\n')
    expect(await claim(db, railType)).toEqual([])
    const status = await command(['status'], reader)
    expect(status.stdout).toMatch(/Everything is paused since .*: reconciliation/)
    expect(status.stdout).toContain('SymphonyAllPaused')
    expect((await json(['status'], reader))['allPausedAgeSeconds']).toBeGreaterThan(0)
    const resumed = await command(['resume', 'all', '--reason', 'the books agree'])
    expect(resumed.stdout).toBe('Everything is resumed.\n')
    expect(await claim(db, railType)).toHaveLength(1)
    const named = await command(['pause', 'all', railType, '--reason', 'odd'])
    expect(named.stderr).toContain('expected none for all')
  })
})

describe('symphony freeze', () => {
  test('places and lifts a freeze; show, status and doctor report it with the remedy', async () => {
    await forgetEpochs(db)
    expect((await command(['freeze', 'show'])).stdout).toBe('Dispatch is open.\n')
    const { railType } = await enqueue(db)
    const { pendingCount, outcomeUnknownCount } = await json(['status'])
    const waiting = Number(pendingCount) - Number(outcomeUnknownCount)
    expect(waiting).toBeGreaterThan(0)
    const trial = ['freeze', 'place', '--reason', 'snapshot of 03:00', '--dry-run']
    expect(await json(trial)).toEqual({ possible: true, waiting })
    expect((await command(trial)).stdout).toContain(
      `marks ${waiting} pending payment${waiting === 1 ? '' : 's'} as of unknown outcome: the rail may have paid.`,
    )
    await db.queryNoRole('SELECT count_outbox_queue(1)')
    await db.queryNoRole(`UPDATE outbox_queue_counts SET counted_at = now() - interval '3 seconds'`)
    expect((await command(trial)).stdout).toMatch(/marks \d+ pending payments? \(counted \d+ s ago\) as of unknown/)
    await db.queryNoRole('UPDATE outbox_queue_counts SET parts = NULL')
    expect(await json(['freeze', 'lift', '--reason', 'compared', '--dry-run'])).toEqual({ possible: false })
    expect((await json(['status']))['dispatchFrozen']).toBe(false)
    const placed = await command(['freeze', 'place', '--reason', 'snapshot of 03:00'])
    expect(placed.stdout).toMatch(/^Dispatch is frozen\. A worker or the lift marks \d+ pending payments? as /)
    expect(placed.stdout).toContain('symphony pause all')
    expect(await json(['freeze', 'place', '--reason', 'again'])).toEqual({ frozen: true, changed: false })
    for (const words of [trial, ['freeze', 'place', '--reason', 'again']]) {
      expect((await command(words)).stdout).toMatch(/^Dispatch was frozen already, since 20\S+Z\..* lift that freeze/s)
    }
    expect(await json(['freeze', 'show'])).toMatchObject({ frozen: true, freezeReason: 'snapshot of 03:00' })
    const status = await command(['status'], reader)
    expect(status.stdout).toContain('Dispatch is FROZEN since')
    expect(status.stdout).toContain('OPERATOR: snapshot of 03:00.')
    expect(status.stdout).toContain('symphony freeze lift --reason')
    expect((await json(['status'], reader))['dispatchFrozen']).toBe(true)
    const doctor = await command(['doctor'], reader)
    expect(doctor.exitCode).toBe(1)
    expect(doctor.stdout).toContain('DISPATCH_IS_OPEN dispatch')
    expect(doctor.stdout).toContain('symphony freeze lift')
    expect(await claim(db, railType)).toEqual([])
    expect(await json(['freeze', 'lift', '--reason', 'compared'])).toEqual({ frozen: false, changed: true })
    expect(await json(['freeze', 'lift', '--reason', 'compared'])).toEqual({ frozen: false, changed: false })
    expect(await claim(db, railType)).toHaveLength(1)
    const epoch = await readDispatchEpoch(db.as('symphony_auditor'))
    expect((await command(['freeze', 'show'])).stdout).toContain(`system identifier  ${epoch!.systemIdentifier}`)
    expect((await command(['freeze', 'lift'])).stderr).toContain('--reason: expected a reason')
  })
})

describe('symphony limits', () => {
  const RULE = ['--kind', 'amount', '--limit', '100.00', '--currency', 'EUR', '--window', '1d']

  test('sets and removes a limit after a second person approves, and shows the usage of the limit', async () => {
    const participant = `participant-${randomUUID()}`
    const proposed = await json(['limits', 'propose', 'daily', ...RULE, '--participant', participant, '--reason', 'r'])
    const proposalId = String(proposed['proposalId'])
    expect(await command(['limits', 'approve', proposalId])).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('APPROVAL_REQUIRED'),
    })
    expect((await command(['limits', 'list'])).stdout).toContain(
      `${proposalId} proposed: daily participant ${participant}: at most 100.00 EUR per 86400 s`,
    )
    expect(await json(['limits', 'approve', proposalId], people.bob)).toEqual({ proposalId, name: 'daily' })
    await enqueue(db, { participantId: participant, payload: { amount: '60', currency: 'EUR' } })
    await enqueue(db, { participantId: participant, payload: { amount: '60', currency: 'EUR' } })
    const { stdout } = await command(['limits', 'list'])
    expect(stdout).toContain(`daily participant ${participant}: at most 100.00 EUR per 86400 s, used 60`)
    expect(stdout).toMatch(/exceeded at .*: later payments are held/)
    const removal = await json(['limits', 'propose', 'daily', '--remove', '--reason', 'over'], people.bob)
    await json(['limits', 'approve', String(removal['proposalId'])])
    expect((await command(['limits', 'list'])).stdout).toBe('No limit is set.\n')
  })

  test('proposes, lists and withdraws a count limit and an approval limit', async () => {
    const count = ['--kind', 'count', '--limit', '5000', '--rail', 'momo', '--window', '1h']
    const approval = ['--kind', 'approval', '--limit', '10', '--currency', 'EUR', '--rail', 'sepa', '--approvals', '2']
    const one = await json(['limits', 'propose', 'hourly', ...count, '--reason', 'r'])
    const two = await json(['limits', 'propose', 'large', ...approval, '--reason', 'r'])
    const { stdout } = await command(['limits', 'list'])
    expect(stdout).toContain('hourly rail momo: at most 5000 payments per 3600 s')
    expect(stdout).toContain('large rail sepa: above 10 EUR, released by 2')
    for (const { proposalId } of [one, two]) {
      expect(await json(['limits', 'withdraw', String(proposalId), '--reason', 'no'])).toMatchObject({
        withdrawn: true,
      })
    }
    expect((await json(['limits', 'list']))['proposals']).toEqual([])
  })

  test.each([
    ['--kind', ['--limit', '1', '--rail', 'r']],
    ['--limit', ['--kind', 'count', '--rail', 'r', '--window', '1h']],
    ['--window', ['--kind', 'count', '--limit', '1', '--rail', 'r', '--window', 'a day']],
    ['rule.currency', ['--kind', 'amount', '--limit', '1', '--rail', 'r', '--window', '1h', '--currency', 'XXX']],
  ])('names the missing or malformed option %s', async (option, words) => {
    const { exitCode, stderr } = await command(['limits', 'propose', 'refused', ...words, '--reason', 'r'])
    expect(exitCode).not.toBe(0)
    expect(stderr).toContain(option)
  })
})

describe('redrive --all-matching', () => {
  test('reads further pages if no payment of the first 50,000 matches', async () => {
    const [item] = await failed(1)
    await db.queryNoRole(
      `SET LOCAL session_replication_role = replica;
       INSERT INTO payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id,
         idempotency_key, rail_type, payload, attempt_no, state, action, outcome_unknown)
       SELECT ('f0000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, gen_random_uuid(), 'i', 'p', n, 'k', 'other',
         '{}', 1, 'FAILED', 'sent', false
       FROM generate_series(1, 50000) n`,
    )
    const words = ['redrive', '--all-matching', '--rail', item!.railType]
    expect(await json([...words, '--dry-run'])).toMatchObject({ outboxIds: [item!.outboxId], more: false })
    expect(idsOf((await json([...words, '--reason', 'r'])).proposed)).toEqual([item!.outboxId])
  })
})
