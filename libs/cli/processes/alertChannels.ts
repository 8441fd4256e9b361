import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { basename, dirname, resolve } from 'node:path'
import {
  boundedInteger,
  InvalidArgumentError,
  isObject,
  parseStrictJson,
  requiredText,
  SymphonyError,
  systemClock,
  type JsonObject,
} from '../../core/index.js'
import { ALERT_TOPIC, noticeStream } from '../../observability/index.js'
import type { Rail } from '../../rails/index.js'

/**
 * Channels of alert notices: Slack, PagerDuty (Events API v2) or JSON signed as Standard Webhooks 1.0. The file of
 * `--notify` declares them. URLs and keys are secrets: no error and no log line contains them.
 */
export interface NotifySettings {
  readonly channels: readonly AlertChannel[]
  /** Interval at which the notice of a firing alert is repeated. */
  readonly repeatSeconds: number
}

export interface AlertChannel {
  readonly name: string
  readonly format: 'slack' | 'pagerduty' | 'json'
  readonly url: string
  /** Routing key of PagerDuty, or secret of the signature; empty for Slack. */
  readonly key: string
  /** Lowest severity that is sent. */
  readonly severity: 'warning' | 'critical'
}

/** Notice about an alert. A `json` channel receives this object. */
export interface AlertNotice {
  readonly id: string
  readonly channel: string
  readonly status: 'firing' | 'resolved'
  readonly alert: string
  readonly severity: 'warning' | 'critical'
  readonly database: string
  readonly summary: string
  readonly detail: string | null
  readonly remedy: string
  readonly since: string
  readonly at: string
}

/**
 * Rail by which a worker sends notices. Retries every failure. Refuses messages of others: a forged notice could page
 * people or resolve an incident.
 */
export function alertRail(channels: readonly AlertChannel[]): Rail {
  return {
    type: ALERT_TOPIC,
    onUnknown: 'resend',
    money: false,
    timeoutMs: SEND_MS + 1_000,
    dispatch: async ({ payload, compactReference, instructionId, participantId }, { signal }) => {
      const isOwn = isNotice(payload) && participantId === noticeStream(payload.channel, payload.alert)
      if (!isOwn || payload.id !== instructionId || !instructionId.startsWith(`${participantId}:`)) {
        return { outcome: 'terminal', code: 'NO_NOTICE', message: 'not a notice of Symphony' }
      }
      const channel = channels.find(({ name }) => name === payload.channel)
      if (channel === undefined) {
        // Another worker may have a newer file.
        return { outcome: 'retryable', code: 'NO_CHANNEL', message: 'no channel of this name in the file of --notify' }
      }
      const refusal = await sendNotice(channel, payload, signal)
      if (refusal === undefined) return { outcome: 'success', reference: compactReference }
      return { outcome: 'retryable', code: 'NOT_ACCEPTED', message: refusal }
    },
  }
}

function isNotice(payload: JsonObject): payload is JsonObject & AlertNotice {
  return FIELDS.every((field) => typeof payload[field] === 'string')
}

const FIELDS = ['id', 'channel', 'status', 'alert', 'severity', 'database', 'summary', 'remedy', 'since', 'at'] as const

/** Sends a notice once. Returns undefined if the channel accepted it (2xx), else the cause. */
export async function sendNotice(
  channel: AlertChannel,
  notice: AlertNotice,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const body = JSON.stringify(bodyOf(channel, notice))
  const timeout = AbortSignal.timeout(SEND_MS)
  try {
    const response = await fetch(channel.url, {
      method: 'POST',
      redirect: 'error',
      headers: { 'content-type': 'application/json', ...signatureOf(channel, notice.id, body) },
      body,
      signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
    })
    // Releases the connection without reading the answer.
    await response.body?.cancel()
    return response.ok ? undefined : `the channel answered ${response.status}`
  } catch (error) {
    // The message of the error may contain the URL.
    return `the channel did not answer (${error instanceof Error ? error.name : 'error'})`
  }
}

const SEND_MS = 5_000

/** Sends a test notice to each channel. Returns the cause of each refusal by channel. */
export async function sendTestNotices(channels: readonly AlertChannel[]): Promise<ReadonlyMap<string, string>> {
  const refusals = new Map<string, string>()
  for (const channel of channels) {
    const at = systemClock.now().toISOString()
    const notice = {
      id: `alert-test-${at.replaceAll(/\W/g, '')}`,
      channel: channel.name,
      alert: 'SymphonyTest',
      severity: 'warning',
      database: 'test',
      summary: 'This is a test of symphony alerts test.',
      detail: null,
      remedy: 'Nothing needs to be done.',
      since: at,
      at,
    } as const
    const refusal =
      (await sendNotice(channel, { ...notice, status: 'firing' })) ??
      // Resolves the incident that the test opened in PagerDuty.
      (channel.format === 'pagerduty' ? await sendNotice(channel, { ...notice, status: 'resolved' }) : undefined)
    if (refusal !== undefined) refusals.set(channel.name, refusal)
  }
  return refusals
}

function bodyOf({ format, key }: AlertChannel, notice: AlertNotice): object {
  if (format === 'slack') return { text: slackText(notice) }
  if (format === 'json') return notice
  const { status, alert, severity, database, summary, detail, remedy, since, at } = notice
  const subject = { routing_key: key, dedup_key: `symphony/${database}/${alert}` }
  if (status === 'resolved') return { ...subject, event_action: 'resolve' }
  return {
    ...subject,
    event_action: 'trigger',
    payload: {
      summary: `${alert}: ${summary}`.slice(0, PAGERDUTY_SUMMARY_MAX),
      source: database,
      severity,
      timestamp: at,
      component: 'symphony',
      class: alert,
      custom_details: { since, remedy, ...(detail === null ? {} : { detail }) },
    },
  }
}

const PAGERDUTY_SUMMARY_MAX = 1_024

function slackText({ status, alert, severity, database, summary, detail, remedy, since }: AlertNotice): string {
  const lines =
    status === 'resolved'
      ? [`*Resolved* ${alert} on ${database}`, summary]
      : [
          `*${severity === 'critical' ? 'Critical' : 'Warning'}* ${alert} on ${database}, since ${since}`,
          summary,
          ...(detail === null ? [] : [detail]),
          `Remedy: ${remedy}`,
        ]
  return lines.map((line) => line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')).join('\n')
}

/** Returns the headers of Standard Webhooks. A retry has the same message id. */
function signatureOf({ format, key }: AlertChannel, id: string, body: string): Readonly<Record<string, string>> {
  if (format !== 'json') return {}
  const messageId = `msg_${id.replaceAll('.', '_')}`
  const timestamp = String(Math.floor(systemClock.now().getTime() / 1_000))
  const secret = Buffer.from(key.slice('whsec_'.length), 'base64')
  const hmac = createHmac('sha256', secret).update(`${messageId}.${timestamp}.${body}`).digest('base64')
  return { 'webhook-id': messageId, 'webhook-timestamp': timestamp, 'webhook-signature': `v1,${hmac}` }
}

/** Reads the `--notify` file. A secret is in this file, in an environment variable or in another file. */
export async function loadNotifyFile(
  path: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<NotifySettings> {
  const argument = basename(path)
  const text = await readFile(path).catch((cause: unknown) => {
    throw new SymphonyError('FILE_UNREADABLE', `The file that --notify names cannot be read: ${path}.`, { cause })
  })
  const file = parseStrictJson(text, { argument })
  if (!isObject(file)) throw new InvalidArgumentError(argument, 'expected an object with channels')
  requireFields(argument, file, ['channels', 'repeatHours'])
  const { channels, repeatHours = 4 } = file
  if (!isObject(channels) || Object.keys(channels).length === 0) {
    throw new InvalidArgumentError(`${argument}: channels`, 'expected an object of channels by their names')
  }
  const read = secretReader(env, dirname(path))
  return {
    repeatSeconds: boundedInteger(`${argument}: repeatHours`, repeatHours, { min: 1, max: 168 }) * 3_600,
    channels: await Promise.all(
      Object.entries(channels).map(([name, given]) => channelOf(`${argument}: ${name}`, name, given, read)),
    ),
  }
}

type SecretReader = (place: string, given: unknown) => Promise<string>

async function channelOf(place: string, name: string, given: unknown, read: SecretReader): Promise<AlertChannel> {
  if (!/^[a-z0-9-]{1,32}$/.test(name)) {
    throw new InvalidArgumentError(place, 'expected a name of 1 to 32 small letters, digits and hyphens')
  }
  if (!isObject(given)) throw new InvalidArgumentError(place, 'expected an object')
  const { format, severity = 'warning' } = given
  if (format !== 'slack' && format !== 'pagerduty' && format !== 'json') {
    throw new InvalidArgumentError(`${place}.format`, 'expected slack, pagerduty or json')
  }
  if (severity !== 'warning' && severity !== 'critical') {
    throw new InvalidArgumentError(`${place}.severity`, 'expected warning or critical')
  }
  const field = KEY_FIELDS[format]
  requireFields(place, given, ['format', 'url', 'severity', ...(field === undefined ? [] : [field])])
  const url =
    given['url'] === undefined && format === 'pagerduty' ? PAGERDUTY : await read(`${place}.url`, given['url'])
  const key = field === undefined ? '' : await read(`${place}.${field}`, given[field])
  if (format === 'json' && Buffer.from(/^whsec_([A-Za-z0-9+/=]+)$/.exec(key)?.[1] ?? '', 'base64').length < 24) {
    throw new InvalidArgumentError(`${place}.secret`, 'expected whsec_ and at least 24 bytes in base64')
  }
  return { name, format, url: safeUrl(`${place}.url`, url), key, severity }
}

const PAGERDUTY = 'https://events.pagerduty.com/v2/enqueue'
const KEY_FIELDS = { slack: undefined, pagerduty: 'routingKey', json: 'secret' } as const

function requireFields(place: string, given: object, known: readonly string[]): void {
  const unknown = Object.keys(given).find((key) => !known.includes(key))
  if (unknown !== undefined) {
    throw new InvalidArgumentError(`${place}.${unknown}`, `unknown; expected one of ${known.join(', ')}`)
  }
}

function secretReader(env: Readonly<Record<string, string | undefined>>, folder: string): SecretReader {
  return async (place, given) => {
    if (!isObject(given)) return requiredText(place, given, SECRET_LENGTH_MAX)
    requireFields(place, given, ['env', 'file'])
    const { env: variable, file } = given
    if (typeof variable === 'string') return requiredText(`${place} (${variable})`, env[variable], SECRET_LENGTH_MAX)
    const path = resolve(folder, requiredText(`${place}.file`, file, SECRET_LENGTH_MAX))
    const text = await readFile(path, 'utf8').catch((cause: unknown) => {
      throw new SymphonyError('FILE_UNREADABLE', `The file of ${place} cannot be read: ${path}.`, { cause })
    })
    return requiredText(place, text.trim(), SECRET_LENGTH_MAX)
  }
}

const SECRET_LENGTH_MAX = 2_048

/** Requires HTTPS, or plain HTTP to this machine, because URL and body may be secret. */
function safeUrl(place: string, text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  const isLocal = url?.protocol === 'http:' && ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  if (url?.protocol === 'https:' || isLocal) return text
  throw new InvalidArgumentError(place, 'expected an https URL, or http to this machine')
}
