import { createHmac } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  alertRail,
  loadNotifyFile,
  sendNotice,
  type AlertChannel,
  type AlertNotice,
} from '../../libs/cli/processes/alertChannels.js'
import { AlertNotifier, DATABASE_AWAY, STOPS_DISPATCH } from '../../libs/cli/processes/AlertNotifier.js'
import { ALERT_RULES, ALERT_TOPIC, type Alert } from '../../libs/observability/index.js'
import type { RailRequest } from '../../libs/rails/index.js'
import { enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { Symphony } from '../../libs/symphony/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { symphony } from '../support/commandLine.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, complete } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { portOf } from '../support/portOf.js'
import { startRailServer } from '../support/railServer.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

const db = await useTestDatabase()
let answer = 200
const server = closeAfterAll(
  await startRailServer((_request, response) => {
    response.writeHead(answer, answer === 307 ? { location: `${server.url}/elsewhere` } : {}).end()
  }),
)
const login = await db.createLogin('notifier', {
  roles: ['executor', 'ingest', 'readonly', 'control'].map((role) => `symphony_${role}`),
})
// As a login of `symphony api` is: it acts for owners of API keys, and its own notices have no such owner.
await db.queryNoRole('SELECT set_actor_gateway($1, false)', [login.name])
beforeEach(() => {
  answer = 200
  server.received.length = 0
})

const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
let channels = 0

/** Returns a channel with a unique name, so that tests share no notices. */
function channelOf(format: AlertChannel['format'], change: Partial<AlertChannel> = {}): AlertChannel {
  channels += 1
  return { name: `c${channels}`, format, url: `${server.url}/hook`, key: SECRET, severity: 'warning', ...change }
}

function alertOf(name: string): Alert {
  const { severity, forSeconds, summary, firstLook, remedy } = ALERT_RULES.find((rule) => rule.name === name)!
  const since = '2026-01-31T08:00:00.000Z'
  return { name, severity, forSeconds, summary, firstLook, remedy, since, state: 'firing', value: 1 }
}

interface Given {
  readonly channel?: AlertChannel
  readonly channels?: readonly AlertChannel[]
  readonly firing?: () => readonly string[]
  readonly evaluate?: () => readonly Alert[]
  readonly repeatSeconds?: number
  readonly leftSeconds?: number
}

function notifierOf({ channel, firing, repeatSeconds = 3_600, leftSeconds = 3_600, ...given }: Given): AlertNotifier {
  const { channels: all = [channel!], evaluate = () => firing!().map(alertOf) } = given
  return new AlertNotifier({
    database: login.database,
    databaseName: 'payments',
    channels: all,
    repeatSeconds,
    leftSeconds,
    rules: ALERT_RULES.map(({ name }) => name),
    evaluate: async () => evaluate(),
  })
}

/** Sends the messages of the outbox as a worker does. */
async function work(channel: AlertChannel): Promise<void> {
  const worker = new Symphony({ url: login.url, schema: db.schema, rails: [alertRail([channel])] })
  try {
    await worker.worker().runOnce()
    await worker.worker().runOnce()
  } finally {
    await worker.close()
  }
}

/** Dispatches a message to the rail of notices. */
async function dispatch(
  channel: AlertChannel,
  message: Pick<RailRequest, 'instructionId' | 'participantId' | 'payload'>,
) {
  const request = {
    ...message,
    reference: 'r',
    compactReference: 'r',
    sequenceId: 1n,
    idempotencyKey: message.instructionId,
    attempt: 1,
    notAfter: new Date(),
  }
  return alertRail([channel]).dispatch(request, { signal: new AbortController().signal })
}

function bodies(): readonly Record<string, unknown>[] {
  return server.received.map(({ body }): Record<string, unknown> => JSON.parse(body))
}

const HELD = 'SymphonyPaymentsHeld'
const CRITICAL = 'SymphonyLedgerChainBroken'
const FROZEN = 'SymphonyDispatchFrozen'
const NOTICE: AlertNotice = {
  id: 'alert:ops:SymphonyPaymentsHeld:1:firing',
  channel: 'ops',
  status: 'firing',
  alert: HELD,
  severity: 'critical',
  database: 'payments',
  summary: 'A payment <b>is held & waits</b>.',
  detail: null,
  remedy: 'Resolve it.',
  since: '2026-01-31T08:00:00.000Z',
  at: '2026-01-31T09:00:00.000Z',
}

describe('a notice of an alert', () => {
  test('is sent to Slack as text with escaped characters', async () => {
    expect(await sendNotice(channelOf('slack'), NOTICE)).toBeUndefined()
    const text = String(bodies()[0]?.['text'])
    expect(text).toContain('*Critical* SymphonyPaymentsHeld on payments')
    expect(text).toContain('&lt;b&gt;is held &amp; waits&lt;/b&gt;')
  })

  test('triggers and resolves the same PagerDuty incident (Events API v2)', async () => {
    const channel = channelOf('pagerduty', { key: 'R0UTING' })
    await sendNotice(channel, NOTICE)
    await sendNotice(channel, { ...NOTICE, status: 'resolved' })
    const incident = { routing_key: 'R0UTING', dedup_key: 'symphony/payments/SymphonyPaymentsHeld' }
    expect(bodies()).toEqual([
      {
        ...incident,
        event_action: 'trigger',
        payload: {
          summary: `${HELD}: ${NOTICE.summary}`,
          source: 'payments',
          severity: 'critical',
          timestamp: NOTICE.at,
          component: 'symphony',
          class: HELD,
          custom_details: { since: NOTICE.since, remedy: NOTICE.remedy },
        },
      },
      { ...incident, event_action: 'resolve' },
    ])
  })

  test('is sent as JSON with a Standard Webhooks signature', async () => {
    await sendNotice(channelOf('json'), NOTICE)
    const { headers, body } = server.received[0]!
    expect(JSON.parse(body)).toEqual(NOTICE)
    const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`
    const hmac = createHmac('sha256', Buffer.alloc(24, 7)).update(signed).digest('base64')
    expect(headers['webhook-signature']).toBe(`v1,${hmac}`)
  })

  test('fails if the channel redirects it, and is not sent to the other address', async () => {
    answer = 307
    expect(await sendNotice(channelOf('json'), NOTICE)).toMatch(/^the channel did not answer/)
    expect(server.received.map(({ path }) => path)).toEqual(['/hook'])
  })

  test('fails if the channel refuses it or is unreachable; the reason shows neither URL nor key', async () => {
    answer = 500
    expect(await sendNotice(channelOf('slack'), NOTICE)).toBe('the channel answered 500')
    const unreachable = channelOf('slack', { url: 'http://127.0.0.1:1/secret-path' })
    expect(await sendNotice(unreachable, NOTICE)).toMatch(/^the channel did not answer \(\w+\)$/)
  })
})

describe('an alert with --notify', () => {
  test('is sent once in total by two watching processes, and so is its end, even if they restart', async () => {
    const channel = channelOf('json')
    let firing = [HELD]
    const both = [notifierOf({ channel, firing: () => firing }), notifierOf({ channel, firing: () => firing })]
    await Promise.all(both.map((one) => one.runOnce()))
    await Promise.all(both.map((one) => one.runOnce()))
    await work(channel)
    expect(bodies()).toMatchObject([{ alert: HELD, status: 'firing', severity: expect.any(String) }])
    firing = []
    // These processes never saw the alert fire, and still send its end.
    const restarted = [notifierOf({ channel, firing: () => firing }), notifierOf({ channel, firing: () => firing })]
    await Promise.all(restarted.map((one) => one.runOnce()))
    await work(channel)
    expect(bodies()).toHaveLength(1)
    for (let round = 0; round < 2; round += 1) await Promise.all(restarted.map((one) => one.runOnce()))
    await work(channel)
    expect(bodies()).toMatchObject([{ status: 'firing' }, { alert: HELD, status: 'resolved' }])
    firing = [HELD]
    await Promise.all(restarted.map((one) => one.runOnce()))
    await work(channel)
    expect(bodies()).toMatchObject([{ status: 'firing' }, { status: 'resolved' }, { status: 'firing' }])
  })

  test('is sent again after the repeat interval; a warning never goes to a critical channel', async () => {
    const channel = channelOf('json', { severity: 'critical' })
    const notifier = notifierOf({ channel, firing: () => [CRITICAL, 'SymphonyMessagesLate'], repeatSeconds: 0 })
    await notifier.runOnce()
    await notifier.runOnce()
    await work(channel)
    expect(bodies().map(({ id }) => id)).toEqual([
      `alert:${channel.name}:${CRITICAL}:1:firing`,
      `alert:${channel.name}:${CRITICAL}:1:again-1`,
    ])
  })

  test.each(['SymphonyDispatchFrozen', 'SymphonyAllPaused', 'SymphonyNoWorkerAlive'])(
    'about stopped dispatch is sent once, directly and not through the outbox: %s',
    async (name) => {
      const channel = channelOf('pagerduty')
      const both = [1, 2].map(() => notifierOf({ channel, firing: () => [name] }))
      const counts = await Promise.all(both.map((one) => one.runOnce()))
      expect(counts.reduce((sum, { sentDirectly }) => sum + sentDirectly, 0)).toBe(1)
      expect(bodies()).toMatchObject([{ event_action: 'trigger' }])
      await both[0]!.runOnce()
      await work(channel)
      expect(bodies()).toHaveLength(1)
    },
  )

  test('about stopped dispatch is sent in a later round if the first attempt failed', async () => {
    const channel = channelOf('json')
    answer = 503
    expect(await notifierOf({ channel, firing: () => [FROZEN] }).runOnce()).toEqual({ enqueued: 1, sentDirectly: 0 })
    answer = 200
    server.received.length = 0
    const next = notifierOf({ channel, firing: () => [FROZEN], leftSeconds: 0 })
    expect(await next.runOnce()).toEqual({ enqueued: 0, sentDirectly: 1 })
    expect(await next.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    expect(bodies()).toMatchObject([{ alert: FROZEN, status: 'firing' }])
  })

  test('is sent directly, once, if no worker has sent its message', async () => {
    const channel = channelOf('json')
    const notifier = notifierOf({ channel, firing: () => [HELD], leftSeconds: 0 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 1, sentDirectly: 0 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 1 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    await work(channel)
    expect(bodies()).toMatchObject([{ alert: HELD, status: 'firing' }])
  })

  test('does not end while the status is missing, before that is an alert of its own', async () => {
    const channel = channelOf('json')
    let alerts = [alertOf(HELD)]
    const notifier = notifierOf({ channel, evaluate: () => alerts })
    await notifier.runOnce()
    alerts = [{ ...alertOf(DATABASE_AWAY), state: 'pending' }]
    for (let round = 0; round < 3; round += 1)
      expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    alerts = []
    await notifier.runOnce()
    expect(await notifier.runOnce()).toEqual({ enqueued: 1, sentDirectly: 0 })
  })

  test('does not wait for a channel that does not answer, and neither does the end of the process', async () => {
    let calls = 0
    const silent = createServer(() => (calls += 1))
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => void silent.close())
    const hung = channelOf('json', { url: `http://127.0.0.1:${portOf(silent)}/` })
    const notifier = notifierOf({ channels: [hung, channelOf('json')], firing: () => [FROZEN] })
    const round = notifier.runOnce()
    await expect.poll(() => bodies().length, POLL_OPTIONS).toBe(1)
    await expect.poll(() => calls, POLL_OPTIONS).toBe(1)
    await notifier.stop()
    expect(await round).toEqual({ enqueued: 2, sentDirectly: 1 })
    expect(calls).toBe(1)
  })

  test.each([
    ['another participant', { participantId: 'shop' }],
    ['another instruction id', { instructionId: 'alert:own:SymphonyPaymentsHeld:2:firing' }],
    ['an id outside its stream', { instructionId: 'U', payload: { ...NOTICE, id: 'U' } }],
    ['a payload that is no notice', { payload: { ...NOTICE, summary: 1 } }],
  ])('is not sent if its message has %s', async (_, change) => {
    const channel = channelOf('json', { name: 'ops' })
    const own = { instructionId: NOTICE.id, participantId: `alert:ops:${HELD}`, payload: { ...NOTICE } }
    expect(await dispatch(channel, own)).toMatchObject({ outcome: 'success' })
    expect(await dispatch(channel, { ...own, ...change })).toMatchObject({ outcome: 'terminal', code: 'NO_NOTICE' })
    expect(bodies()).toHaveLength(1)
  })

  test('is sent after another participant of the outbox has sent a message to its stream', async () => {
    const channel = channelOf('json')
    const key = `alert:${channel.name}:${HELD}`
    let firing = [HELD]
    const notifier = notifierOf({ channel, firing: () => firing })
    await notifier.runOnce()
    firing = []
    for (let round = 0; round < 2; round += 1) await notifier.runOnce()
    for (const railType of ['foreign', ALERT_TOPIC]) {
      const foreign = { ...buildInstruction({ participantId: key, railType }), payload: {} }
      await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), [foreign], { isMessage: true })
    }
    firing = [HELD]
    expect(await notifier.runOnce()).toEqual({ enqueued: 1, sentDirectly: 0 })
    for (let round = 0; round < 2; round += 1) await work(channel)
    expect(bodies().map(({ id }) => id)).toEqual([`${key}:1:firing`, `${key}:1:resolved`, `${key}:2:firing`])
  })

  test('is tried again later by a worker whose file does not have its channel', async () => {
    const own = { instructionId: NOTICE.id, participantId: `alert:ops:${HELD}`, payload: { ...NOTICE } }
    const answered = await dispatch(channelOf('json', { name: 'other' }), own)
    expect(answered).toMatchObject({ outcome: 'retryable', code: 'NO_CHANNEL' })
  })

  test('is sent once, and so are the notices of other alerts, if its message cannot be cancelled', async () => {
    await db.queryNoRole('REVOKE EXECUTE ON FUNCTION cancel_outbox_item(uuid, text) FROM symphony_ingest')
    onTestFinished(async () => {
      await db.queryNoRole('GRANT EXECUTE ON FUNCTION cancel_outbox_item(uuid, text) TO symphony_ingest')
    })
    const notifier = notifierOf({ channel: channelOf('json'), firing: () => [FROZEN, HELD], leftSeconds: 0 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 2, sentDirectly: 1 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 1 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    expect(bodies().map(({ alert }) => alert)).toEqual([FROZEN, HELD])
  })

  test('is sent directly once by a process if a dead worker has claimed its message', async () => {
    const notifier = notifierOf({ channel: channelOf('json'), firing: () => [HELD], leftSeconds: 0 })
    await notifier.runOnce()
    await claim(db, ALERT_TOPIC)
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 1 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    expect(bodies()).toHaveLength(1)
  })

  test('is left to the workers if one of them has tried its message', async () => {
    const notifier = notifierOf({ channel: channelOf('json'), firing: () => [HELD], leftSeconds: 0 })
    await notifier.runOnce()
    const [message] = await claim(db, ALERT_TOPIC)
    await complete(db, message!, { state: 'RETRYABLE', errorCode: 'NOT_ACCEPTED', retryDelaySeconds: 3600 })
    expect(await notifier.runOnce()).toEqual({ enqueued: 0, sentDirectly: 0 })
    expect(bodies()).toEqual([])
  })

  test('about an unreachable database is sent directly, once when it fires and once when it ends', async () => {
    const channel = channelOf('json')
    let firing = [DATABASE_AWAY]
    const notifier = notifierOf({ channel, firing: () => firing })
    await notifier.runOnce()
    await notifier.runOnce()
    firing = []
    await notifier.runOnce()
    await notifier.runOnce()
    expect(bodies()).toMatchObject([
      { alert: DATABASE_AWAY, status: 'firing' },
      { alert: DATABASE_AWAY, status: 'resolved' },
    ])
  })

  test('is listed in ALERT_RULES if the notifier sends it directly, not through the outbox', () => {
    const names = ALERT_RULES.map(({ name }) => name)
    expect(names).toEqual(expect.arrayContaining([...STOPS_DISPATCH, DATABASE_AWAY]))
  })
})

async function load(content: unknown, env: Record<string, string> = {}) {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  const path = join(folder, 'notify.json')
  await writeFile(path, JSON.stringify(content))
  await writeFile(join(folder, 'key'), `${SECRET}\n`)
  return { path, load: () => loadNotifyFile(path, env) }
}

describe('the file given with --notify', () => {
  test('can refer to secrets in environment variables and in other files', async () => {
    const given = {
      repeatHours: 1,
      channels: {
        ops: { format: 'slack', url: { env: 'SLACK_URL' } },
        oncall: { format: 'pagerduty', routingKey: 'R1', severity: 'critical' },
        own: { format: 'json', url: 'https://hooks.example/x', secret: { file: 'key' } },
      },
    }
    const file = await load(given, { SLACK_URL: 'https://hooks.slack.com/services/T/B/x' })
    expect(await file.load()).toEqual({
      repeatSeconds: 3_600,
      channels: [
        { name: 'ops', format: 'slack', url: 'https://hooks.slack.com/services/T/B/x', key: '', severity: 'warning' },
        {
          name: 'oncall',
          format: 'pagerduty',
          url: 'https://events.pagerduty.com/v2/enqueue',
          key: 'R1',
          severity: 'critical',
        },
        { name: 'own', format: 'json', url: 'https://hooks.example/x', key: SECRET, severity: 'warning' },
      ],
    })
  })

  test.each([
    [{}, 'channels'],
    [{ channels: { ops: { format: 'mail' } } }, 'ops.format'],
    [{ channels: { ops: { format: 'slack', url: 'http://hooks.example/S3CRET' } } }, 'ops.url'],
    [{ channels: { ops: { format: 'slack', url: { env: 'NOT_SET' } } } }, 'NOT_SET'],
    [{ channels: { ops: { format: 'json', url: 'https://x.example', secret: 'S3CRET' } } }, 'ops.secret'],
    [{ channels: { ops: { format: 'slack', url: 'https://x.example', key: 'S3CRET' } } }, 'ops.key'],
    [{ channels: { 'Ops Team': { format: 'slack', url: 'https://x.example' } } }, 'Ops Team'],
    [{ channels: { ops: { format: 'slack', url: 'https://x.example' } }, repeatHours: 0 }, 'repeatHours'],
  ])('is refused; the error names the field or variable at fault and shows no secret: %j', async (content, place) => {
    const error: unknown = await (await load(content)).load().catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(Error)
    expect(String(error)).toContain(place)
    expect(String(error)).not.toContain('S3CRET')
  })

  test('is tested by symphony alerts test, which exits with 1 if a channel refuses the notice', async () => {
    const { path } = await load({ channels: { ops: { format: 'slack', url: `${server.url}/S3CRET` } } })
    const sent = await symphony(['alerts', 'test', '--notify', path])
    expect(sent).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('ops') })
    expect(bodies()).toMatchObject([{ text: expect.stringContaining('test') }])
    answer = 404
    const refused = await symphony(['alerts', 'test', '--notify', path])
    expect(refused.exitCode).toBe(1)
    expect(refused.stderr).toContain('answered 404')
    expect(refused.stdout + refused.stderr).not.toContain('S3CRET')
  })

  test('can be named in --config; symphony alerts test prints the result as JSON with --json', async () => {
    const { path } = await load({ channels: { ops: { format: 'slack', url: `${server.url}/hook` } } })
    const config = `${path}.config`
    await writeFile(config, JSON.stringify({ notify: path }))
    const { exitCode, stdout, stderr } = await symphony(['alerts', 'test', '--config', config, '--json'])
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(JSON.parse(stdout)).toEqual({ channels: [{ name: 'ops', format: 'slack', refusal: null }] })
  })
})
