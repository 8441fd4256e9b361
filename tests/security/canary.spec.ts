import { createHmac } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { inspect } from 'node:util'
import { pino } from 'pino'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PermanentFailureError, type JsonObject } from '../../libs/core/index.js'
import { logEvents, Metrics } from '../../libs/observability/index.js'
import { Inbox, InboxWorker } from '../../libs/inbox/index.js'
import { enqueue, OutboxRelayer, OutboxStore, type OutboxInstruction } from '../../libs/outbox/index.js'
import { FieldVault, KeyRing, protectedRails } from '../../libs/protection/index.js'
import {
  httpRail,
  loadRails,
  NotSentError,
  maskPayloadText,
  type LoadedRail,
  type RailDeclaration,
  type RailAnswer,
  type RailRequest,
} from '../../libs/rails/index.js'
import { SchedulerStore } from '../../libs/scheduler/index.js'
import { closePages, launchBrowser } from '../support/browser.js'
import { builtPath } from '../support/builtPath.js'
import { symphony } from '../support/commandLine.js'
import { visit } from '../support/dashboardFixture.js'
import { DASHBOARD_PAGES } from '../support/dashboardPages.js'
import { useTestDatabase } from '../support/database.js'
import { tableNames } from '../support/fingerprint.js'
import { openHttpFixture, TOKEN, type HttpFixture } from '../support/httpFixture.js'
import { buildInstruction } from '../support/outboxItems.js'
import { buildMasterKey } from '../support/protectionFixture.js'
import { answerJson, startRailServer } from '../support/railServer.js'
import { buildJobDefinition, createTimer } from '../support/scheduled.js'
import { startTracing } from '../support/tracing.js'

/**
 * Sends a card number and a password through every failing path: throwing and echoing rails, failed checks, refused
 * requests. Then collects logs, errors, metrics, spans, tables, answers and pages of the dashboard, and searches them for
 * both secrets.
 */

const CARD = '4929 1234 5678 9015'
const PASSWORD = 'corréct"horse\\9f3b7'
const CANARIES: readonly string[] = [
  CARD,
  CARD.replaceAll(' ', ''),
  CARD.replaceAll(' ', '-'),
  PASSWORD,
  JSON.stringify(PASSWORD).slice(1, -1),
  encodeURIComponent(PASSWORD),
  Buffer.from(PASSWORD).toString('base64'),
]
const PAYLOAD: JsonObject = { amount: '1.00', currency: 'EUR', card: CARD, login: { password: PASSWORD }, n: 1 }
const FIELDS = { '/card': 'encrypted', '/login': 'encrypted', '/note': 'forbidden' } as const

const db = await useTestDatabase()
let folder: string
/** Logs, errors and answers of each failing operation, by the name of the operation. */
const left = new Map<string, string>()
const logged: string[] = []
const metrics = new Metrics({ version: 'of the tests' })
const log = pino(
  { level: 'trace' },
  new Writable({
    write(chunk, _encoding, done) {
      logged.push(String(chunk))
      done()
    },
  }),
)
const key = buildMasterKey('canary')
let received = 0
let plainProof = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-canary-'))
  await failingRails()
  await failingChecks()
  await echoingServers()
  await failingHandlers()
  await refusedRequests()
  await refusedCommands()
  await keepTraces()
})
afterAll(async () => {
  await rm(folder, { recursive: true })
})

function keep(path: string, found: unknown): void {
  left.set(
    path,
    `${left.get(path) ?? ''}${typeof found === 'string' ? found : inspect(found, { depth: 12, getters: true })}`,
  )
}

/** Builds an error of an adapter with the payload in every field that an error can have. */
function errorWithPayload(request: RailRequest): Error {
  const text = JSON.stringify(request.payload)
  return Object.assign(new TypeError(`cannot send ${text} for ${PASSWORD}`, { cause: new Error(`card ${CARD}`) }), {
    code: CARD.replaceAll(' ', ''),
    request,
    body: text,
  })
}

type Behaviour = (request: RailRequest) => RailAnswer | Promise<RailAnswer>

const BEHAVIOURS: Readonly<Record<string, Behaviour>> = {
  'throws everything': (request) => {
    throw errorWithPayload(request)
  },
  'rejects with text': (request) => Promise.reject(JSON.stringify(request)),
  'was not sent': (request) => {
    throw new NotSentError(`no route for ${JSON.stringify(request.payload)}`, { cause: errorWithPayload(request) })
  },
  'refuses for good': ({ payload }) => ({
    outcome: 'terminal',
    code: PASSWORD,
    message: `card ${CARD} of ${encodeURIComponent(PASSWORD)} ${JSON.stringify(payload)}`,
  }),
  'refuses for now': () => ({ outcome: 'retryable', code: 'BUSY', message: Buffer.from(PASSWORD).toString('base64') }),
  'does not know': () => ({ outcome: 'unknown', code: 'ODD', message: `${'x'.repeat(1_985)}${PASSWORD}` }),
  'answers garbage': ({ payload }) => JSON.parse(JSON.stringify({ outcome: PASSWORD, payload })),
}

function railThat(type: string, declared: Partial<RailDeclaration>): RailDeclaration {
  return {
    type,
    onUnknown: 'resend',
    money: false,
    fields: FIELDS,
    dispatch: (request) => {
      throw errorWithPayload(request)
    },
    ...declared,
  }
}

/** Dispatches one payment on each of these rails, with logs, metrics and a database. */
async function dispatchAll(path: string, rails: ReadonlyMap<string, LoadedRail>): Promise<void> {
  const protection = new FieldVault(rails, new KeyRing([key], key.id))
  for (const railType of rails.keys()) {
    await enqueue(buildInstruction({ railType, payload: PAYLOAD }), { tx: db.as('symphony_ingest'), protection })
  }
  const logEvent = logEvents(log)
  const relayer = new OutboxRelayer(
    db.database,
    protectedRails(rails, protection, db.as('symphony_executor')),
    {},
    (event) => {
      logEvent(event)
      metrics.outbox.onRelayerEvent(event)
      keep(`${path}: events`, event)
    },
  )
  await relayer.runOnce()
  await relayer.stop()
  for (const rail of rails.values()) await rail.close()
}

function receives(behave: Behaviour): Behaviour {
  return (request) => {
    if (JSON.stringify(request.payload).includes(CARD)) received += 1
    return behave(request)
  }
}

/** Dispatches to rails whose errors and answers contain the payload. */
async function failingRails(): Promise<void> {
  const tracing = startTracing()
  try {
    const rails = Object.entries(BEHAVIOURS).map(([name, behave], index) =>
      railThat(`tells-${index}-${name.replaceAll(' ', '-')}`, { dispatch: receives(behave) }),
    )
    await dispatchAll('rails', loadRails(rails))
    keep(
      'spans',
      tracing.spans().map(({ name, attributes, events, status }) => ({ name, attributes, events, status })),
    )
  } finally {
    await tracing.stop()
  }
}

/** Runs checks whose errors contain the payload. */
async function failingChecks(): Promise<void> {
  await dispatchAll(
    'checks',
    loadRails([
      railThat('schema-throws', {
        payload: schema((value) => {
          throw new Error(`bad ${JSON.stringify(value)}`)
        }),
      }),
      railThat('schema-refuses', {
        payload: schema((value) => ({ issues: [{ message: JSON.stringify(value), path: [PASSWORD] }] })),
      }),
      railThat('destination-throws', {
        money: true,
        destination: () => {
          throw new Error(`${CARD} ${PASSWORD}`)
        },
      }),
    ]),
  )
}

/** Calls a server that echoes its input, and one that is gone. */
async function echoingServers(): Promise<void> {
  const echo = await startRailServer(({ body, path }, response) => {
    if (body.includes(CARD)) received += 1
    if (path.endsWith('/html')) response.writeHead(500, { 'x-echo': encodeURIComponent(PASSWORD) }).end(body)
    else answerJson(response, 400, { code: JSON.parse(body).payload?.login?.password, message: body, error: { body } })
  })
  try {
    const http = (path: string) =>
      httpRail({
        type: `http-${path}`,
        onUnknown: 'resend',
        money: false,
        fields: FIELDS,
        http: { url: `${echo.url}/${path}` },
      })
    await dispatchAll('http rails', loadRails([http('json'), http('html')]))
  } finally {
    await echo.close()
  }
  const dead = httpRail({
    type: 'http-dead',
    onUnknown: 'resend',
    money: false,
    fields: FIELDS,
    http: { url: `${echo.url}/gone` },
  })
  await dispatchAll('http rails', loadRails([dead]))
}

/** Error text with the secrets in several encodings. */
const ERROR_WITH_SECRETS = `cannot handle ${JSON.stringify(PAYLOAD)}: card ${CARD}, password=${encodeURIComponent(PASSWORD)}, Authorization: Basic ${Buffer.from(PASSWORD).toString('base64')}`

/** Fails handlers on every path that stores an error text: messages, the inbox, timers and runs. */
async function failingHandlers(): Promise<void> {
  const owner = 'canary-handler'
  const store = new OutboxStore(db.database, { owner })
  for (const topic of ['abandoned', 'failed']) await store.enqueue({ topic, payload: {} })
  const claim = (topic: string) => store.claim({ batchSize: 1, topics: [topic] })
  const outcomes = [
    await store.abandon(await claim('abandoned'), { error: ERROR_WITH_SECRETS }),
    await store.fail(await claim('failed'), ERROR_WITH_SECRETS),
  ]

  const inbox = new Inbox(db.database)
  const marked = { source: 'bank', messageId: 'marked' }
  await inbox.alreadyProcessed(marked)
  await inbox.markDead(marked, ERROR_WITH_SECRETS)
  for (const topic of ['retried', 'died']) {
    await inbox.enqueue({ source: 'bank', messageId: topic, topic, payload: {} })
  }
  const { name: handlerRole } = await db.createLogin('handler')
  await db.queryNoRole(`GRANT ${handlerRole} TO symphony_test_login`)
  const worker = new InboxWorker(
    db.database,
    {
      retried: async () => {
        throw new Error(ERROR_WITH_SECRETS, { cause: new Error(ERROR_WITH_SECRETS) })
      },
      died: async () => {
        throw new PermanentFailureError(ERROR_WITH_SECRETS)
      },
    },
    { workerId: owner, handlerRole },
    logEvents(log),
  )
  expect(await worker.runOnce()).toMatchObject({ retried: 1, deadLettered: 1 })
  await worker.stop()

  const scheduler = new SchedulerStore(db.database)
  for (const end of ['abandonTimers', 'failTimers'] as const) {
    const { topic } = await createTimer(db)
    const timers = await scheduler.claimTimers({ batchSize: 1, workerId: owner, topics: [topic] })
    outcomes.push(
      end === 'failTimers'
        ? await scheduler.failTimers(timers, owner, ERROR_WITH_SECRETS)
        : await scheduler.abandonTimers(timers, owner, { error: ERROR_WITH_SECRETS }),
    )
  }
  for (const end of ['abandonJobRuns', 'failJobRuns'] as const) {
    const job = buildJobDefinition()
    await scheduler.createOrUpdateJob(job)
    await scheduler.triggerJob(job.name)
    const runs = await scheduler.claimJobRuns({ batchSize: 1, workerId: owner, topics: [job.topic] })
    outcomes.push(
      end === 'failJobRuns'
        ? await scheduler.failJobRuns(runs, owner, ERROR_WITH_SECRETS)
        : await scheduler.abandonJobRuns(runs, owner, { error: ERROR_WITH_SECRETS }),
    )
  }
  expect(outcomes.map(({ length }) => length)).toEqual(outcomes.map(() => 1))
}

/** Collects refused requests of the API, and the masked answers of accepted ones. */
async function refusedRequests(): Promise<void> {
  const rails = loadRails([
    railThat('shown', {}),
    railThat('masked', { fields: { '/card': 'masked', '/login': 'masked' } }),
  ])
  const vault = new FieldVault(rails, new KeyRing([key], key.id))
  const secret = 'a secret of the canary'
  const fixture = await openHttpFixture(db, {
    log,
    dashboardFolder: builtPath('dashboard'),
    accessTokenOwner: 'tess',
    api: {
      protection: {
        encrypt: (role, instructions) => vault.encrypt(role, instructions),
        maskFor: async (_role, railType) => (text) => maskPayloadText(text, rails.get(railType)?.fields ?? []),
      },
    },
    webhooks: {
      ingest: db.as('symphony_ingest'),
      sources: { bank: { secrets: [secret], messageIdPointer: '/id', topic: 'canary' } },
    },
  })
  try {
    const sound = buildInstruction({ railType: 'shown', payload: PAYLOAD })
    for (const [name, body, idempotencyKey] of refusedBodies(sound)) {
      const response = await fixture.post(body, idempotencyKey)
      keep(`api: ${name}`, `${response.status} ${await response.text()} ${inspect([...response.headers])}`)
      expect([name, response.status]).toEqual([name, expect.toSatisfy((status) => Number(status) < 500)])
    }
    await refusedWebhooks(fixture, secret)
    for (const [path, body] of [
      ['/v1/pauses', { [CARD]: PASSWORD }],
      ['/v1/pauses', { kind: CARD, name: PASSWORD, reason: 'x' }],
      [`/v1/outbox?${encodeURIComponent(CARD)}=1`, undefined],
      [`/v1/outbox?state=${encodeURIComponent(CARD)}`, undefined],
      [`/v1/outbox/${encodeURIComponent(CARD)}`, undefined],
    ] as const) {
      const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
      const response = await fixture.call(path, body === undefined ? {} : sent)
      expect(response.status).toBeLessThan(500)
      keep(`api: ${path.split('?')[0]}`, `${response.status} ${await response.text()}`)
    }
    // Ends an item, so that its ledger has an attempt, which holds the payload.
    const ended = await enqueue(buildInstruction({ railType: 'masked', payload: PAYLOAD }), {
      tx: db.as('symphony_ingest'),
    })
    const relayer = new OutboxRelayer(
      db.database,
      loadRails([
        railThat('masked', {
          dispatch: BEHAVIOURS['refuses for good']!,
          fields: { '/card': 'masked', '/login': 'masked' },
        }),
      ]),
    )
    await relayer.runOnce()
    await relayer.stop()
    for (const route of ['', '/proof']) {
      const response = await fixture.call(`/v1/outbox/${ended.outboxId}${route}`)
      const text = await response.text()
      expect(response.status).toBe(200)
      keep(`api: shown${route}`, text + recordsIn(text))
    }
    for (const path of ['/v1/outbox', '/v1/dlq', '/v1/holds', '/v1/status', '/v1/rails', '/v1/workers', '/metrics']) {
      keep(`api: ${path}`, await (await fixture.call(path)).text())
    }
    await openDashboard(fixture, ended.outboxId)
    // The unmasked answer shows that the masked one had secrets to mask.
    plainProof = recordsIn(await (await fixture.call(`/v1/outbox/${ended.outboxId}/proof?payloads=plain`)).text())
  } finally {
    await fixture.close()
  }
}

async function openDashboard({ address }: HttpFixture, outboxId: string): Promise<void> {
  const browser = await launchBrowser()
  const { page, goTo } = await visit(browser, `${address}/#token=${TOKEN}`)
  for (const { name, path } of DASHBOARD_PAGES) {
    await goTo(path(outboxId))
    if (name === 'payment') {
      await page.getByRole('button', { name: 'Show the payload' }).click()
      await page.locator('pre', { hasText: 'currency' }).waitFor()
    }
    keep(`dashboard: ${name}`, await page.content())
  }
  await closePages(browser)
}

/** Decodes the rows of a ledger answer. They are base64, which would hide the secrets. */
function recordsIn(answer: string): string {
  const { rows = [] }: { rows?: { record: string | null }[] } = JSON.parse(answer)
  return rows.map(({ record }) => Buffer.from(record ?? '', 'base64').toString()).join('\n')
}

function refusedBodies(sound: OutboxInstruction): (readonly [string, string | Uint8Array, string])[] {
  const { idempotencyKey: _key, ...body } = sound
  const text = (change: object) => JSON.stringify({ ...body, ...change })
  const payload = (change: object) => text({ payload: { ...PAYLOAD, ...change } })
  return [
    ['not JSON', `{"payload": {"card": "${CARD}", ${PASSWORD}`, 'k1'],
    ['a key twice', `{"${CARD}": 1, "${CARD}": 2}`, 'k2'],
    ['an unknown field', text({ [CARD]: PASSWORD }), 'k3'],
    ['an id that is none', text({ instructionId: CARD }), 'k4'],
    ['a rail that is none', text({ railType: `${PASSWORD} x` }), 'k5'],
    ['a key that is none', text({}), CARD],
    ['a number too long', payload({ n: 0 }).replace('"n":0', `"n":${CARD.replaceAll(' ', '')}e99`), 'k6'],
    ['half a surrogate', payload({ x: PASSWORD }).replace('"x":"', '"x":"\\ud8004929'), 'k7'],
    ['a NUL', payload({ x: 0 }).replace('"x":0', `"x":"\\u0000 ${CARD}"`), 'k8'],
    ['an unknown time', text({ notBefore: PASSWORD }), 'k9'],
    ['a forbidden field', payload({ note: CARD }), 'k10'],
    ['bytes that are no text', Buffer.concat([Buffer.from(`{"a":"${CARD}`), Buffer.from([0xff])]), 'k11'],
    ['the sound one', text({}), 'k12'],
    ['the same key with another content', payload({ n: 2 }), 'k12'],
    ['too large', payload({ x: CARD.repeat(4_000) }), 'k13'],
  ]
}

async function refusedWebhooks(fixture: HttpFixture, secret: string): Promise<void> {
  for (const [name, body] of [
    ['not JSON', `{"id": "${CARD}" ${PASSWORD}`],
    ['without an id', JSON.stringify({ card: CARD, password: PASSWORD })],
    ['with an id that is none', JSON.stringify({ id: `${CARD}\u0000`, password: PASSWORD })],
  ] as const) {
    for (const signedWith of [secret, 'another']) {
      const at = String(Math.floor(Date.now() / 1_000))
      const signature = createHmac('sha256', signedWith).update(`${at}.`).update(body).digest('hex')
      const response = await fixture.call('/v1/webhooks/bank', {
        method: 'POST',
        body,
        headers: {
          authorization: '',
          'content-type': 'application/json',
          'webhook-timestamp': at,
          'webhook-signature': `sha256=${signature}`,
        },
      })
      keep(`webhook: ${name}`, `${response.status} ${await response.text()}`)
    }
  }
}

async function refusedCommands(): Promise<void> {
  const login = await db.createLogin('canary', { roles: ['symphony_ingest', 'symphony_readonly'] })
  const env = { DATABASE_URL: login.url, SYMPHONY_SCHEMA: db.schema }
  const file = join(folder, 'payments.ndjson')
  const instruction = buildInstruction({ payload: PAYLOAD })
  await writeFile(file, `${JSON.stringify({ ...instruction, [CARD]: CARD })}\n`)
  const one = (payload: string, ...more: string[]) => [
    'enqueue',
    '--instruction',
    instruction.instructionId,
    '--participant',
    'p',
    '--rail',
    'r',
    '--payload',
    payload,
    ...more,
  ]
  for (const words of [
    ['enqueue', '--file', file],
    one(`{"card":"${CARD}",`),
    one(JSON.stringify({ ...PAYLOAD, x: '\u0000' })),
    one(JSON.stringify(PAYLOAD), '--not-before', PASSWORD),
    one(JSON.stringify({ n: 1 })),
    one(JSON.stringify(PAYLOAD)),
    one(JSON.stringify(PAYLOAD), '--rails', join(folder, 'none.mjs')),
  ]) {
    for (const flags of [[], ['--json'], ['--debug']]) keep('command line', await symphony([...words, ...flags], env))
  }
  // Collects the errors for values that the types refuse, printed in full.
  for (const payload of [
    { ...PAYLOAD, x: undefined },
    { ...PAYLOAD, x: new Map([[CARD, PASSWORD]]) },
    { [CARD]: 1n },
  ]) {
    const call = enqueue(
      {
        ...instruction, // @ts-expect-error -- a caller in JavaScript can pass this
        payload,
      },
      { tx: db.as('symphony_ingest') },
    )
    keep('errors', await call.catch((error: unknown) => error))
  }
}

test('the secrets of this test have reached every rail and server (positive control)', () => {
  expect(received).toBe(Object.keys(BEHAVIOURS).length + 2)
})

test('ledger rows that are read without masking contain the card number (positive control)', () => {
  expect(plainProof).toContain(CARD)
})

test('no log, error, metric, span, table or answer contains the card number or the password', () => {
  const found = [...left].flatMap(([path, text]) =>
    CANARIES.filter((canary) => text.includes(canary)).map((canary) => `${path}: ${canary}`),
  )
  process.stdout.write(`canary: ${left.size} places, ${found.length} occurrences\n`)
  expect(left.size).toBeGreaterThan(50)
  expect(left.get('log')).toContain('outbox')
  expect(found).toEqual([])
})

test('outbox, inbox and scheduler store the error of a failing handler (positive control)', () => {
  const stored = ['payment_outbox_attempts', 'inbox_messages', 'inbox_events']
  for (const table of stored) {
    expect([table, left.get(`table ${table}`)?.includes('cannot handle')]).toEqual([table, true])
  }
  const tasks = left.get('table scheduler_tasks')!.split('\n')
  for (const kind of ['timer', 'run']) {
    expect(tasks.some((task) => task.includes(`,${kind},`) && task.includes('cannot handle'))).toBe(true)
  }
})

/** Collects the log, the metrics and the tables. */
async function keepTraces(): Promise<void> {
  keep('log', logged.join(''))
  keep('metrics', await metrics.registry.metrics())
  for (const table of await tableNames(db)) {
    // Masked fields are stored in plain text and masked only when they are shown, so ledger rows of the rail `masked`
    // are left out.
    const isLedger = table.startsWith('payment_outbox')
    const { rows } = await db.queryNoRole<{ text: string | null }>(
      `SELECT string_agg(t::text, E'\\n') AS text FROM ${db.qualify(table)} t
       ${isLedger ? `WHERE strpos(t::text, ',masked,') = 0` : ''}`,
    )
    keep(`table ${table}`, rows[0]?.text ?? '')
  }
}

function schema(validate: (value: unknown) => { issues: { message: string; path?: string[] }[] }) {
  return { '~standard': { version: 1 as const, vendor: 'canary', validate } }
}
