import { systemClock } from '../../core/index.js'
import { IdempotencyConflictError, NotCancellableError, type Database } from '../../db/index.js'
import { ALERT_TOPIC, noticeStream, type Alert } from '../../observability/index.js'
import {
  cancelOutboxItem,
  enqueuePaymentOutboxBatch,
  readItemViews,
  searchParticipant,
  type ItemView,
} from '../../outbox/index.js'
import { IntervalWorker, settleWithin, sleep } from '../../worker/index.js'
import { sendNotice, type AlertChannel, type AlertNotice, type NotifySettings } from './alertChannels.js'

/** Alerts during which no worker sends messages. This process sends their notices at once. */
export const STOPS_DISPATCH: ReadonlySet<string> = new Set([
  'SymphonyDispatchFrozen',
  'SymphonyAllPaused',
  'SymphonyNoWorkerAlive',
])
/**
 * Alert for a database that does not answer. The database cannot record its notices, so this process remembers them.
 */
export const DATABASE_AWAY = 'SymphonyStatusMissing'

interface NotifierOptions extends NotifySettings {
  readonly database: Pick<Database, 'as'>
  /** Name of the database in notices. */
  readonly databaseName: string
  readonly evaluate: () => Promise<readonly Alert[]>
  /** Names of all rules. */
  readonly rules: readonly string[]
  readonly onSent?: (line: { alert: string; channel: string; status: string; refusal?: string }) => void
  readonly onError?: (error: unknown) => void
  /** @default 15000 */
  readonly intervalMs?: number
  /**
   * Age after which any process sends a pending notice: no worker serves the topic, or the process that enqueued it
   * died. @default 60
   */
  readonly leftSeconds?: number
}

/** Counts of one round. */
export interface NotifierCounts {
  readonly enqueued: number
  readonly sentDirectly: number
}

/**
 * Notifies channels when an alert fires, still fires or has ended. Each notice is an outbox message, ordered per
 * channel and alert. The id of a message contains the status, so the last message tells whether the alert fires. The id
 * is unique, so only one of several processes enqueues a notice, and a restart neither repeats nor loses one. An alert
 * ends when two rounds in a row do not find it.
 *
 * While an alert stops dispatch, the process that enqueued the notice sends it directly and then cancels the message.
 * If no worker has tried a notice of a firing alert for `leftSeconds`, a round of any process does the same.
 */
export class AlertNotifier extends IntervalWorker<NotifierCounts> {
  readonly #options: NotifierOptions
  /**
   * Number of rounds in a row in which an alert did not fire. Contains every rule at first, later only alerts that fire
   * or whose end was not notified yet.
   */
  readonly #watched: Map<string, number>
  /** Time of the last notice about an unreachable database, by channel. */
  readonly #away = new Map<string, number>()
  readonly #last = new Map<string, Alert>()
  /** Ids of notices sent directly whose message could not be cancelled. This process does not send them again. */
  readonly #uncancelled = new Set<string>()
  readonly #stopping = new AbortController()

  constructor(options: NotifierOptions) {
    super({ intervalMs: options.intervalMs ?? 15_000, hasMore: () => false, onError: options.onError ?? (() => {}) })
    this.#options = options
    this.#watched = new Map(options.rules.map((name) => [name, 0]))
    this.#watched.delete(DATABASE_AWAY)
  }

  /** Stops within a second: neither a channel nor a database that does not answer delays the shutdown. */
  override async stop(): Promise<void> {
    this.#stopping.abort()
    await settleWithin(super.stop(), STOP_MS)
  }

  async runOnce(): Promise<NotifierCounts> {
    const alerts = await this.#options.evaluate()
    const away = alerts.find(({ name }) => name === DATABASE_AWAY)
    const counts = {
      enqueued: 0,
      sentDirectly: await this.#tellAway(away !== undefined && isFiring(away) ? away : undefined),
    }
    // Without a status nothing is known about the other alerts, not even that they have ended.
    if (away !== undefined) return counts
    const firing = new Map(alerts.filter(isFiring).map((alert) => [alert.name, alert]))
    for (const alert of firing.values()) {
      this.#watched.set(alert.name, 0)
      this.#last.set(alert.name, alert)
    }
    const open = new Set<string>(firing.keys())
    const watched = [...this.#watched]
    // No channel waits for another, and no alert for one whose notice fails.
    await Promise.all(
      this.#options.channels.map(async (channel) => {
        for (const [name, missing] of watched) {
          if (this.#stopping.signal.aborted) return
          try {
            const told = await this.#tell(channel, name, firing.get(name), missing)
            counts.enqueued += told.enqueued ? 1 : 0
            counts.sentDirectly += told.sent ? 1 : 0
            if (told.isOpen) open.add(name)
          } catch (error) {
            open.add(name)
            this.#options.onError?.(error)
          }
        }
      }),
    )
    for (const [name, missing] of watched) {
      if (open.has(name)) this.#watched.set(name, firing.has(name) ? 0 : missing + 1)
      else this.#watched.delete(name)
    }
    return counts
  }

  async #tell(channel: AlertChannel, name: string, alert: Alert | undefined, missing: number) {
    const key = noticeStream(channel.name, name)
    const last = await this.#readLast(key)
    const step = this.#nextStep(channel, last, alert, missing)
    const isOpen = step === undefined ? last.status === 'firing' : step.status === 'firing'
    if (step === undefined) {
      // A message that a worker has tried is not left: the worker repeats it, and a slow channel delays no other.
      const isUnsent = last.isPending && (last.isUntried || STOPS_DISPATCH.has(name))
      const isLeft = isOpen && isUnsent && last.ageSeconds >= (this.#options.leftSeconds ?? 60)
      const isDirect = alert !== undefined && isLeft && !this.#uncancelled.has(last.id)
      return { isOpen, enqueued: false, sent: isDirect && (await this.#sendDirectly(channel, last, alert)) }
    }
    const id = `${key}:${step.episode}:${step.word}`
    const notice = this.#noticeOf(id, channel, name, step.status, alert)
    const outboxId = await this.#enqueue(id, key, notice)
    if (outboxId === undefined) return { isOpen, enqueued: false, sent: false }
    const isStopped = alert !== undefined && STOPS_DISPATCH.has(name)
    const sent = isStopped && (await this.#sendDirectly(channel, { outboxId, id }, alert))
    return { isOpen, enqueued: true, sent }
  }

  #nextStep(channel: AlertChannel, last: LastNotice, alert: Alert | undefined, missing: number): Step | undefined {
    if (alert === undefined) {
      if (last.status !== 'firing' || missing < MISSING_ROUNDS) return undefined
      return { status: 'resolved', episode: last.episode, word: 'resolved' }
    }
    if (last.status !== 'firing') {
      if (channel.severity === 'critical' && alert.severity !== 'critical') return undefined
      return { status: 'firing', episode: last.episode + 1, word: 'firing' }
    }
    if (last.ageSeconds < this.#options.repeatSeconds) return undefined
    return { status: 'firing', episode: last.episode, word: `again-${last.repeats + 1}` }
  }

  async #readLast(key: string): Promise<LastNotice> {
    const readonly = this.#options.database.as('symphony_readonly')
    const { ids } = await searchParticipant(readonly, key, { kind: 'message', limit: LAST_MESSAGES })
    // Skips messages that others sent to this participant, in SQL or by a job.
    const last = (await readItemViews(readonly, ids)).find(
      ({ instructionId, railType }) =>
        railType === ALERT_TOPIC && instructionId.startsWith(`${key}:`) && NOTICE_ID.test(instructionId),
    )
    return last === undefined ? NEVER : lastNoticeOf(last)
  }

  /** Enqueues a notice. Returns its outbox id, or undefined if another process has enqueued this notice. */
  async #enqueue(id: string, key: string, notice: AlertNotice): Promise<string | undefined> {
    const ingest = this.#options.database.as('symphony_ingest')
    const message = { instructionId: id, idempotencyKey: id, participantId: key, railType: ALERT_TOPIC, ordered: true }
    try {
      const [item] = await enqueuePaymentOutboxBatch(ingest, [{ ...message, payload: { ...notice } }], {
        isMessage: true,
      })
      return item?.created === true ? item.outboxId : undefined
    } catch (error) {
      // Another process has enqueued this notice with a different value or time, so this one is a duplicate.
      if (error instanceof IdempotencyConflictError) return undefined
      throw error
    }
  }

  /**
   * Sends a notice that no worker sends, then cancels its message. Returns whether the channel accepted the notice.
   */
  async #sendDirectly(channel: AlertChannel, { outboxId, id }: Pick<LastNotice, 'outboxId' | 'id'>, alert: Alert) {
    const notice = this.#noticeOf(id, channel, alert.name, 'firing', alert)
    if (!(await this.#send(channel, notice))) return false
    const ingest = this.#options.database.as('symphony_ingest')
    await cancelOutboxItem(ingest, outboxId, 'sent directly, because no worker sent it').catch((error: unknown) => {
      // For example a worker has claimed the message. The channel may get the notice twice.
      this.#uncancelled.add(id)
      if (!(error instanceof NotCancellableError)) this.#options.onError?.(error)
    })
    return true
  }

  async #tellAway(alert: Alert | undefined): Promise<number> {
    let sent = 0
    for (const channel of this.#options.channels) {
      const toldAtMs = this.#away.get(channel.name)
      const id = `${noticeStream(channel.name, DATABASE_AWAY)}:${process.pid}:${systemClock.now().getTime()}`
      if (alert !== undefined) {
        if (toldAtMs !== undefined && systemClock.now().getTime() - toldAtMs < this.#options.repeatSeconds * 1_000)
          continue
        this.#last.set(DATABASE_AWAY, alert)
        if (!(await this.#send(channel, this.#noticeOf(id, channel, DATABASE_AWAY, 'firing', alert)))) continue
        this.#away.set(channel.name, systemClock.now().getTime())
        sent += 1
      } else if (toldAtMs !== undefined) {
        if (!(await this.#send(channel, this.#noticeOf(id, channel, DATABASE_AWAY, 'resolved', undefined)))) continue
        this.#away.delete(channel.name)
        sent += 1
      }
    }
    return sent
  }

  async #send(channel: AlertChannel, notice: AlertNotice): Promise<boolean> {
    let refusal: string | undefined
    for (let attempt = 1; attempt <= SEND_ATTEMPTS; attempt += 1) {
      refusal = await sendNotice(channel, notice, this.#stopping.signal)
      if (refusal === undefined || this.#stopping.signal.aborted) break
      if (attempt < SEND_ATTEMPTS) await sleep(attempt * SEND_PAUSE_MS, this.#stopping.signal)
    }
    const { alert, status } = notice
    this.#options.onSent?.({ alert, status, channel: channel.name, ...(refusal === undefined ? {} : { refusal }) })
    return refusal === undefined
  }

  #noticeOf(
    id: string,
    channel: AlertChannel,
    name: string,
    status: AlertNotice['status'],
    current: Alert | undefined,
  ): AlertNotice {
    const alert = current ?? this.#last.get(name)
    const at = systemClock.now().toISOString()
    return {
      id,
      channel: channel.name,
      status,
      alert: name,
      severity: alert?.severity ?? 'warning',
      database: this.#options.databaseName,
      summary: status === 'resolved' ? 'The condition of the alert has ended.' : (alert?.summary ?? ''),
      detail: alert?.detail ?? null,
      remedy: alert?.remedy ?? '',
      since: alert?.since ?? at,
      at,
    }
  }
}

/** Number of rounds in a row in which a firing alert may be missing. The next round without the alert ends it. */
const MISSING_ROUNDS = 1
const STOP_MS = 1_000
const SEND_ATTEMPTS = 3
/** Number of messages among which the last notice is searched. */
const LAST_MESSAGES = 50
const SEND_PAUSE_MS = 500

interface Step {
  readonly status: AlertNotice['status']
  readonly episode: number
  readonly word: string
}

/** Last notice about an alert in a channel. */
interface LastNotice {
  readonly id: string
  readonly outboxId: string
  readonly status: AlertNotice['status']
  /** Number of times that the alert has started to fire. */
  readonly episode: number
  readonly repeats: number
  readonly ageSeconds: number
  readonly isPending: boolean
  readonly isUntried: boolean
}

const NEVER: LastNotice = {
  id: '',
  outboxId: '',
  status: 'resolved',
  episode: 0,
  repeats: 0,
  ageSeconds: 0,
  isPending: false,
  isUntried: false,
}

function lastNoticeOf({ outboxId, instructionId, createdAt, state, lastAttemptNo }: ItemView): LastNotice {
  const [, episode = '0', word = '', repeats = '0'] = NOTICE_ID.exec(instructionId) ?? []
  return {
    id: instructionId,
    outboxId,
    status: word === 'resolved' || word === '' ? 'resolved' : 'firing',
    episode: Number(episode),
    repeats: Number(repeats),
    ageSeconds: (systemClock.now().getTime() - Date.parse(createdAt)) / 1_000,
    isPending: state !== 'DISPATCHED' && state !== 'FAILED',
    isUntried: lastAttemptNo === null,
  }
}

const NOTICE_ID = /:(\d+):(resolved|firing|again-(\d+))$/

function isFiring({ state }: Alert): boolean {
  return state === 'firing'
}
