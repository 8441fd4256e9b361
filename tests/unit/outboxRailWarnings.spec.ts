import { randomUUID } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { AcceptedBatch } from '../../libs/http/index.js'
import { declareOutboxRails, OutboxRelayer, RailWarnings, type OutboxInstruction } from '../../libs/outbox/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { apiRolesOf, bodyOf, openHttpFixture } from '../support/httpFixture.js'
import { claimOnly, complete } from '../support/outboxItems.js'
import { openConnection } from '../support/race.js'

/** Tests the warning for an accepted payment whose rail no worker has served within a day. */

let nowMs = 1
const clock = { now: () => new Date(), monotonicMs: () => nowMs }
const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db, { clock }))

const newRail = () => `rail-${randomUUID()}`
const expireCache = () => (nowMs += 10_000)

const railsOf = (type: string) =>
  loadRails([{ type, onUnknown: 'resend', dispatch: () => ({ outcome: 'success' as const, reference: 'ref' }) }])

const declare = (type: string, { serving }: { readonly serving: boolean }) =>
  declareOutboxRails(db.as('symphony_executor'), railsOf(type).values(), 'process-1', { serving })

async function startWorker(type: string): Promise<OutboxRelayer> {
  const worker = new OutboxRelayer(db.database, railsOf(type), { workerId: `worker-of-${type}` })
  onTestFinished(() => worker.stop())
  await worker.start()
  return worker
}

async function silenceWorkers(type: string, interval: string): Promise<void> {
  await db.queryNoRole('UPDATE outbox_rails SET served_at = now() - $2::interval WHERE rail_type = $1', [
    type,
    interval,
  ])
}

function buildInstruction(railType: string): OutboxInstruction {
  const id = randomUUID()
  return { instructionId: id, idempotencyKey: id, participantId: `p-${id}`, railType, payload: { amount: '12.50' } }
}

async function post({ idempotencyKey, ...body }: OutboxInstruction, to = fixture) {
  const response = await to.post(body, idempotencyKey)
  const answer = await bodyOf(response)
  return { status: response.status, ...answer }
}

const warningOf = (railType: string, since = 'yet') => ({
  code: 'RAIL_NOT_SERVED',
  message: expect.stringContaining(`No worker has served the rail ${railType} ${since}`),
})

const unserved = async (rails: readonly (string | null)[] | null) =>
  (await db.as('symphony_ingest').query(`SELECT * FROM ${db.qualify('unserved_outbox_rails')}($1)`, [rails])).rows

describe('unserved_outbox_rails', () => {
  test('returns an undeclared rail once, however often it is named', async () => {
    const rail = newRail()
    expect(await unserved([rail, rail])).toEqual([{ rail_type: rail, served_at: null }])
  })

  test('returns a rail that only an API declared, not one that a worker serves', async () => {
    const [declared, served] = [newRail(), newRail()]
    await declare(declared, { serving: false })
    await declare(served, { serving: true })
    expect(await unserved([served, declared])).toEqual([{ rail_type: declared, served_at: null }])
  })

  test('returns a rail and its served_at if no worker has served it for more than a day', async () => {
    const rail = newRail()
    await declare(rail, { serving: true })
    await silenceWorkers(rail, '23 hours')
    expect(await unserved([rail])).toEqual([])
    await silenceWorkers(rail, '25 hours')
    await declare(rail, { serving: false })
    expect(await unserved([rail])).toEqual([{ rail_type: rail, served_at: expect.any(Date) }])
  })

  test.each([
    ['no list', null],
    ['an empty list', []],
    ['a list with null', ['sepa', null]],
    ['an id with a space', ['two words']],
    ['1001 rails', Array.from({ length: 1_001 }, () => 'sepa')],
  ])('refuses %s (22023)', async (_, rails) => {
    await expect(unserved(rails)).rejects.toMatchObject({ sqlstate: '22023' })
  })
})

describe('POST /v1/instructions or /v1/instructions/batch', () => {
  test('warns if no worker ever served the rail, or the last one did so 25 hours ago', async () => {
    const rail = newRail()
    const first = buildInstruction(rail)
    expect(await post(first)).toMatchObject({ status: 201, warnings: [warningOf(rail)] })
    expect(await post(first)).toMatchObject({ status: 200, warnings: [warningOf(rail)] })
    const worker = await startWorker(rail)
    await worker.stop()
    expireCache()
    const served = await post(buildInstruction(rail))
    expect([served.status, 'warnings' in served]).toEqual([201, false])
    await silenceWorkers(rail, '25 hours')
    expireCache()
    expect(await post(buildInstruction(rail))).toMatchObject({ status: 201, warnings: [warningOf(rail, 'since 20')] })
  })

  test('returns no warning for a repeated payment that has ended', async () => {
    const instruction = buildInstruction(newRail())
    await post(instruction)
    await complete(db, await claimOnly(db, instruction.railType), { state: 'DISPATCHED', railReference: 'ref' })
    const repeated = await post(instruction)
    expect(repeated).toMatchObject({ status: 200, state: 'DISPATCHED' })
    expect(repeated).not.toHaveProperty('warnings')
  })

  test('warns if only an API has declared the rail', async () => {
    const rail = newRail()
    await declare(rail, { serving: false })
    expect(await post(buildInstruction(rail))).toMatchObject({ warnings: [warningOf(rail)] })
  })

  test('returns one warning per unserved rail for a batch, beside its items', async () => {
    const [served, one, two] = [newRail(), newRail(), newRail()]
    await declare(served, { serving: true })
    const response = await fixture.call('/v1/instructions/batch', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ instructions: [one, served, one, two].map(buildInstruction) }),
    })
    const { items, warnings }: AcceptedBatch = JSON.parse(await response.text())
    expect(warnings).toEqual([warningOf(one), warningOf(two)])
    expect(items).toHaveLength(4)
    for (const item of items) expect(item).not.toHaveProperty('warnings')
  })
})

/** Opens an API that counts its queries for unserved rails. */
async function openCountingFixture() {
  const { ingest } = await apiRolesOf(db)
  const counts = { reads: 0 }
  const counting: typeof ingest = {
    schema: db.schema,
    query: (text, values) => {
      if (text.includes('unserved_outbox_rails')) counts.reads += 1
      return ingest.query(text, values)
    },
  }
  const counted = await openHttpFixture(db, { roles: { ingest: counting }, clock })
  onTestFinished(() => counted.close())
  return { counted, counts }
}

describe('the query for unserved rails', () => {
  test('runs at most once per rail in 10 s, even for concurrent requests', async () => {
    const { counted, counts } = await openCountingFixture()
    const rail = newRail()
    const together = await Promise.all(Array.from({ length: 8 }, () => post(buildInstruction(rail), counted)))
    for (const answer of together) expect(answer).toMatchObject({ status: 201, warnings: [warningOf(rail)] })
    await post(buildInstruction(rail), counted)
    expect(counts.reads).toBe(1)
    expireCache()
    await post(buildInstruction(rail), counted)
    expect(counts.reads).toBe(2)
  })

  test('causes neither a warning nor an error if the database refuses it', async () => {
    const right = `EXECUTE ON FUNCTION ${db.qualify('unserved_outbox_rails')}(text[])`
    await db.queryNoRole(`REVOKE ${right} FROM symphony_ingest`)
    onTestFinished(async () => void (await db.queryNoRole(`GRANT ${right} TO symphony_ingest`)))
    const { counted, counts } = await openCountingFixture()
    const accepted = await post(buildInstruction(newRail()), counted)
    expect([accepted.status, 'warnings' in accepted, counts.reads]).toEqual([201, false, 1])
  })

  test('does not delay the response for a committed payment while it waits for a lock', async () => {
    const blocker = await openConnection(db)
    onTestFinished(() => blocker.close())
    await blocker.query('BEGIN')
    await blocker.query(`LOCK TABLE ${db.qualify('outbox_rails')}`)
    const { counted, counts } = await openCountingFixture()
    const accepted = await post(buildInstruction(newRail()), counted)
    expect([accepted.status, 'warnings' in accepted, counts.reads]).toEqual([201, false, 1])
    const { rows } = await db.queryNoRole(
      `SELECT pid FROM pg_locks WHERE NOT granted AND relation = '${db.qualify('outbox_rails')}'::regclass`,
    )
    expect(rows).toHaveLength(1)
  })

  test('runs again for a rail that 10,000 later names have evicted from the cache', async () => {
    const warnings = new RailWarnings(db.as('symphony_ingest'), clock)
    const rail = newRail()
    expect(await warnings.find([rail])).toHaveLength(1)
    await declare(rail, { serving: true })
    expect(await warnings.find([rail])).toHaveLength(1)
    for (let round = 0; round < 10; round += 1) {
      const names = Array.from({ length: 1_001 }, (_, index) => `${rail}-${round}-${index}`)
      expect(await warnings.find(names)).toHaveLength(1_000)
    }
    expect(await warnings.find([rail])).toEqual([])
  })
})

const run = (...words: string[]) =>
  symphony(['enqueue', ...words], { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema })

function wordsOf({ instructionId, participantId, railType, payload }: OutboxInstruction): string[] {
  const names = ['--instruction', instructionId, '--participant', participantId, '--rail', railType]
  return [...names, '--payload', JSON.stringify(payload)]
}

describe('symphony enqueue', () => {
  test('warns of an unserved rail on stderr and in --json, and exits with 0', async () => {
    const instruction = buildInstruction(newRail())
    const { railType } = instruction
    const output = await run(...wordsOf(instruction))
    expect([output.exitCode, output.stdout]).toEqual([0, expect.stringContaining('was enqueued')])
    expect(output.stderr).toContain(`RAIL_NOT_SERVED No worker has served the rail ${railType} yet`)
    const json = await run(...wordsOf(instruction), '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ created: false, warnings: [warningOf(railType)] })
    await declare(railType, { serving: true })
    const silent = await run(...wordsOf(instruction), '--json')
    expect(JSON.parse(silent.stdout)).not.toHaveProperty('warnings')
  })

  test('warns once per unserved rail of a file (--file)', async () => {
    const [served, missing] = [newRail(), newRail()]
    await declare(served, { serving: true })
    const file = join(await mkdtemp(join(tmpdir(), 'payments-')), 'payments.ndjson')
    await writeFile(file, [missing, served, missing].map((rail) => JSON.stringify(buildInstruction(rail))).join('\n'))
    const json = await run('--file', file, '--json')
    expect(JSON.parse(json.stdout)).toEqual({ read: 3, created: 3, existing: 0, warnings: [warningOf(missing)] })
    const output = await run('--file', file)
    expect(output.stderr.match(/RAIL_NOT_SERVED/g)).toHaveLength(1)
  })
})

test('a listening worker has declared its rails when start() returns', async () => {
  const rail = newRail()
  await startWorker(rail)
  expect(await new RailWarnings(db.as('symphony_ingest')).find([rail])).toEqual([])
})
