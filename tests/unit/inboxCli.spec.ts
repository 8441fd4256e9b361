import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { loadWebhooksFile } from '../../libs/cli/processes/ProcessHttpServer.js'
import { failInboxMessages, type InboxClaim, type InboxKey } from '../../libs/inbox/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { enqueued, enqueuedAndClaimed, rowOf, WORKER } from '../support/inboxMessages.js'

/** Tests of `symphony inbox` as a login that may read and act. */

let db: TestDatabase
let folder: string
let person: { readonly name: string; readonly url: string }
let dead: InboxClaim
beforeAll(async () => {
  db = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'symphony-inbox-'))
  person = await db.createLogin('alice', { roles: ['symphony_readonly', 'symphony_control'] })
  dead = await deadMessage()
})
afterAll(async () => {
  await db.drop()
  await rm(folder, { recursive: true })
})

async function deadMessage(): Promise<InboxClaim> {
  const claim = await enqueuedAndClaimed(db, { payload: { card: 'CANARY4929' } })
  await failInboxMessages(db.as('symphony_executor'), [{ ...claim, error: 'the account is closed' }], WORKER)
  return claim
}

function inbox(...words: readonly string[]): Promise<CommandOutput> {
  return symphony(['inbox', ...words], { DATABASE_URL: person.url, SYMPHONY_SCHEMA: db.schema })
}

async function json(...words: readonly string[]): Promise<Record<string, unknown>> {
  const { exitCode, stdout, stderr } = await inbox(...words, '--json')
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  const printed: Record<string, unknown> = JSON.parse(stdout)
  return printed
}

const wordsOf = ({ source, messageId }: InboxKey) => [source, messageId]

describe('symphony inbox list', () => {
  test('shows dead messages unless another state is given, and never a payload', async () => {
    const waiting = await enqueued(db, { notBefore: new Date(Date.now() + 3_600_000) })
    expect(await json('list')).toMatchObject({
      messages: expect.arrayContaining([
        expect.objectContaining({ source: dead.source, state: 'dead', lastError: 'the account is closed' }),
      ]),
    })
    const { stdout } = await inbox('list', '--state', 'seen')
    expect(stdout).toContain(waiting.source)
    expect(stdout).not.toContain(dead.source)
    expect((await inbox('list', '--state', 'done')).stdout).toContain('No message is done.')
    expect((await inbox('list')).stdout).not.toContain('CANARY')
    expect((await inbox('list', '--json')).stdout).not.toContain('CANARY')
  })

  test('shows at most --limit messages, the latest first, and notes that there may be more', async () => {
    const latest = await deadMessage()
    const { exitCode, stdout, stderr } = await inbox('list', '--limit', '1')
    expect({ exitCode, latest: stdout.includes(latest.source) }).toEqual({ exitCode: 0, latest: true })
    expect(stderr).toContain('there may be more')
    for (const limit of ['0', '1001', 'many']) expect((await inbox('list', '--limit', limit)).exitCode).toBe(2)
    expect((await inbox('list', '--state', 'odd')).exitCode).toBe(2)
  })

  test('shows dead messages that ended from --since on and before --until', async () => {
    const message = await deadMessage()
    const { ended_at: ended } = await rowOf(db, message)
    const [from, to] = [ended, new Date(Number(ended) + 1)].map((time) => new Date(Number(time)).toISOString())
    const found = (...words: string[]) => inbox('list', ...words).then(({ stdout }) => stdout.includes(message.source))
    expect(await found('--since', from!, '--until', to!)).toBe(true)
    expect(await found('--since', to!)).toBe(false)
    expect(await found('--until', from!)).toBe(false)
    expect((await inbox('list', '--until', 'tomorrow')).stderr).toContain('--until: expected a time')
  })
})

describe('symphony inbox show', () => {
  test('prints a message and its events', async () => {
    const shown = await json('show', ...wordsOf(dead))
    expect(shown).toMatchObject({
      message: { source: dead.source, messageId: dead.messageId, state: 'dead', attemptCount: 1, sightings: '1' },
      events: [{ eventType: 'DIED', actor: WORKER, detail: { error: 'the account is closed' } }],
    })
    const { stdout } = await inbox('show', ...wordsOf(dead))
    for (const word of ['dead', 'attempts', '1 of 20', 'DIED by worker-1', 'the account is closed']) {
      expect(stdout).toContain(word)
    }
    expect(stdout).not.toContain('CANARY')
  })

  test('prints who claimed a message, or that the message is known for deduplication only', async () => {
    const claimed = await enqueuedAndClaimed(db)
    expect((await inbox('show', ...wordsOf(claimed))).stdout).toContain(`claimed by ${WORKER} until`)
    await db.as('symphony_executor').query(`SELECT * FROM ${db.qualify('record_inbox_sighting')}('twice', 'm')`)
    await db.as('symphony_executor').query(`SELECT * FROM ${db.qualify('record_inbox_sighting')}('twice', 'm')`)
    const { stdout } = await inbox('show', 'twice', 'm')
    expect(stdout).toContain('known for deduplication only')
    expect(stdout).toContain('2 times in all')
  })

  test('fails for an unknown message (MESSAGE_NOT_FOUND)', async () => {
    const { exitCode, stderr } = await inbox('show', 'unknown', 'nothing', '--json')
    expect([exitCode, JSON.parse(stderr)]).toMatchObject([1, { error: { code: 'MESSAGE_NOT_FOUND' } }])
    expect((await inbox('show', ' ', 'x')).exitCode).toBe(2)
  })
})

describe('symphony inbox revive', () => {
  test('revives a dead message and records the login and the reason', async () => {
    const message = await deadMessage()
    const revived = await json('revive', ...wordsOf(message), '--reason', 'it is open again')
    expect(revived).toMatchObject({ source: message.source, messageId: message.messageId })
    expect(await rowOf(db, message)).toMatchObject({ state: 'seen', attempt_count: 0 })
    const { events } = await json('show', ...wordsOf(message))
    expect(events).toMatchObject([
      { eventType: 'DIED' },
      { eventType: 'REVIVED', actor: person.name, detail: { reason: 'it is open again' } },
    ])
  })

  test('refuses a missing reason, a message that is not dead, and an unknown message', async () => {
    const words = wordsOf(await deadMessage())
    expect((await inbox('revive', ...words)).exitCode).toBe(2)
    expect((await inbox('revive', ...words, '--reason', 'yes')).stdout).toContain('is due again')
    const again = await inbox('revive', ...words, '--reason', 'yes', '--json')
    expect([again.exitCode, JSON.parse(again.stderr)]).toMatchObject([1, { error: { code: 'INBOX_TRANSITION' } }])
    const unknown = await inbox('revive', 'unknown', 'nothing', '--reason', 'yes', '--json')
    expect([unknown.exitCode, JSON.parse(unknown.stderr)]).toMatchObject([1, { error: { code: 'INBOX_UNKNOWN' } }])
  })
})

test('symphony inbox --help shows its commands and examples', async () => {
  const { stdout, exitCode } = await inbox('--help')
  expect(exitCode).toBe(0)
  for (const word of ['list', 'show', 'revive', 'Examples:', 'symphony inbox revive bank-of-x evt_17']) {
    expect(stdout).toContain(word)
  }
})

describe('the webhooks file of symphony api', () => {
  test('is parsed strictly; an error names file, source and field, never a secret', async () => {
    const path = join(folder, 'webhooks.json')
    await writeFile(path, '{"bank": {"secrets": ["sixteen letters!"], "messageIdPointer": "/id"}}')
    expect(await loadWebhooksFile(path)).toEqual({
      bank: { secrets: ['sixteen letters!'], messageIdPointer: '/id' },
    })
    await writeFile(path, '{"bank": {"secrets": ["CANARY4929"]}}')
    const short = await loadWebhooksFile(path).catch((error: unknown) => String(error))
    expect(short).toContain('webhooks.json: bank.secrets[0]: expected at least 16')
    expect(short).not.toContain('CANARY')
    await writeFile(path, '{"bank": {}, "bank": {}}')
    await expect(loadWebhooksFile(path)).rejects.toThrow('webhooks.json')
    await expect(loadWebhooksFile(join(folder, 'none.json'))).rejects.toMatchObject({ code: 'FILE_UNREADABLE' })
  })
})
