import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import type { Proof } from '../../libs/http/index.js'
import { declareOutboxRails } from '../../libs/outbox/index.js'
import { loadRails } from '../../libs/rails/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony } from '../support/commandLine.js'
import { type TestLogin, useTestDatabase } from '../support/database.js'
import { createKey, openHttpFixture } from '../support/httpFixture.js'
import { createPerson, enqueueFailed, enqueueUnknown, propose, type Person } from '../support/outboxPeople.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { writeRailsFile } from '../support/railsFile.js'

/** Tests which amounts HTTP shows to a key with the scope read, and which the command line shows. */

const IBAN = 'DE89370400440532013000'
const PAYLOAD = { amount: '12.50', currency: 'EUR', destination: IBAN, memo: 'SECRET-MEMO' }
const SHOWN = { amount: '12.50', currency: 'EUR', destination: '••••3000', destinationWithheld: null }
const RAIL = 'declared'

const db = await useTestDatabase()
const fixture = closeAfterAll(await openHttpFixture(db))
let olga: Person
let held: Awaited<ReturnType<typeof enqueueUnknown>>
let failed: Awaited<ReturnType<typeof enqueueFailed>>
let reader: string
let web: TestLogin
beforeAll(async () => {
  olga = await createPerson(db, 'olga')
  const rails = loadRails([
    {
      type: RAIL,
      onUnknown: 'hold',
      fields: { '/destination': 'masked', '/memo': 'encrypted' },
      dispatch: () => ({ outcome: 'success', reference: 'r' }),
    },
  ])
  await declareOutboxRails(db.as('symphony_executor'), rails.values(), 'worker-1', { serving: true })
  held = await enqueueUnknown(db, { railType: RAIL, payload: PAYLOAD })
  failed = await enqueueFailed(db, { railType: RAIL, payload: PAYLOAD })
  await propose(olga, held.outboxId, 'RETRY')
  web = await db.createLogin('web', {
    roles: ['symphony_ingest', 'symphony_readonly', 'symphony_auditor', 'symphony_control', 'symphony_auth'],
  })
  reader = (await createKey(db, { owner: 'carol', scopes: ['read'] })).key
})

describe('amount, currency and masked destination', () => {
  const places: readonly (readonly [string, () => string, string])[] = [
    ['a list of payments', () => '/v1/outbox', 'items.0'],
    ['one payment', () => `/v1/outbox/${held.outboxId}`, 'item'],
    ['the proposals of one payment', () => `/v1/outbox/${held.outboxId}`, 'proposals.0'],
    ['an instruction', () => `/v1/instructions/${held.instructionId}`, 'items.0'],
    ['a hold', () => '/v1/holds', 'items.0.item'],
    ['the proposal of a hold', () => '/v1/holds', 'items.0.proposal'],
    ['a dead letter', () => '/v1/dlq', 'items.0.item'],
    ['a list of proposals', () => '/v1/proposals', 'items.0'],
  ]
  test.for(places)('are shown in %s to an API key with scope read', async ([, path, place]) => {
    const response = await fixture.call(path(), { headers: { authorization: `Bearer ${reader}` } })
    const text = await response.text()
    expect([response.status, text.includes(IBAN), text.includes('SECRET')]).toEqual([200, false, false])
    const at = place.split('.').reduce<unknown>((value, key) => Reflect.get(Object(value), key), JSON.parse(text))
    expect(at).toMatchObject(SHOWN)
  })
})

function commandLine(...words: readonly string[]) {
  return symphony(words, { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema })
}

describe('the command line', () => {
  const commands: readonly (readonly [string, () => readonly string[]])[] = [
    ['show', () => ['show', held.instructionId]],
    ['holds list', () => ['holds', 'list']],
    ['dlq list', () => ['dlq', 'list']],
  ]
  test.for(commands)('shows the amount in symphony %s, as text and as JSON', async ([, words]) => {
    const output = await commandLine(...words())
    expect(output.stdout).toContain('12.50 EUR to ••••3000')
    expect((await commandLine(...words(), '--json')).stdout).toContain('"destination":"••••3000"')
    expect(output.stdout).not.toContain(IBAN)
  })

  test('shows the amount in a dry run of an approval', async () => {
    const { stdout } = await commandLine('holds', 'list', '--json')
    const { held: listed }: { held: { proposal: { proposalId: string } }[] } = JSON.parse(stdout)
    const output = await commandLine('approve', listed[0]!.proposal.proposalId, '--dry-run')
    expect(output.stdout).toContain('12.50 EUR to ••••3000')
  })
})

/** Runs `symphony api` with these words while `body` calls it. */
async function whileServing(words: readonly string[], body: (address: string) => Promise<void>): Promise<void> {
  const stop = new AbortController()
  const written = { stdout: '', stderr: '' }
  const env = { DATABASE_URL: web.url, SYMPHONY_SCHEMA: db.schema, SYMPHONY_LOG_LEVEL: 'silent' }
  const running = symphony(['api', '--port', '0', ...words], env, stop.signal, written)
  try {
    await expect.poll(() => written.stdout, POLL_OPTIONS).toMatch(/^The API listens on http:\S+\.\n$/)
    await body(/http:\S+(?=\.\n)/.exec(written.stdout)?.[0] ?? '')
  } finally {
    stop.abort()
    await running
  }
}

test('an API without --rails masks payloads by the field classes that a worker declared', async () => {
  const { key } = await createKey(db, { owner: 'audrey', scopes: ['audit'] })
  await whileServing([], async (address) => {
    const proof = async (query: string) => {
      const headers = { authorization: `Bearer ${key}` }
      const response = await fetch(`${address}/v1/outbox/${failed.outboxId}/proof${query}`, { headers })
      const { rows }: Proof = JSON.parse(await response.text())
      return rows
        .map(({ payload, record }) => `${payload} ${Buffer.from(record ?? '', 'base64').toString()}`)
        .join('\n')
    }
    const masked = await proof('')
    const plain = await proof('?payloads=plain')
    expect(masked).toContain('••••3000')
    expect(masked).toContain('[encrypted]')
    for (const secret of [IBAN, 'SECRET-MEMO']) {
      expect([masked.includes(secret), plain.includes(secret)]).toEqual([false, true])
    }
  })
})

test('an API with --rails declares the field classes of its rail, but does not mark it as served', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-rails-'))
  const declaration = `type: '${RAIL}', onUnknown: 'hold', fields: { '/iban': 'masked' }, dispatch() {}`
  const before = await served()
  await whileServing(['--rails', await writeRailsFile(folder, declaration)], async () => {
    const { rows } = await db.queryNoRole('SELECT declared_by, money, fields FROM outbox_rails')
    const fields = { '/destination': 'masked', '/memo': 'encrypted', '/iban': 'masked' }
    expect(rows).toEqual([{ declared_by: 'api', money: true, fields }])
  })
  expect(await served()).toEqual(before)
  await rm(folder, { recursive: true })
})

async function served(): Promise<readonly object[]> {
  return (await db.queryNoRole<object>('SELECT served_at FROM outbox_rails')).rows
}
