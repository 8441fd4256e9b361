import type { Queryable } from '../../libs/db/index.js'
import {
  abandonInboxMessages,
  ackInboxMessages,
  claimInboxBatch,
  enqueueInboxMessages,
  failInboxMessages,
  markInboxDead,
  markInboxProcessed,
  markInboxProcessing,
  nextInboxEvent,
  purgeInboxMessages,
  recordInboxSighting,
  reviveInboxMessage,
  type InboxKey,
  type InboxMessage,
} from '../../libs/inbox/index.js'
import type { TestDatabase } from '../support/database.js'
import { compareAnswers, fieldDifferences, NOTHING_DONE, refuseDifferences } from './answers.js'
import { AssumedClaims, type ClaimPick } from './AssumedClaims.js'
import { InboxModel, type ReturnedClaim, type Content, type Delivery, type Message } from './inboxModel.js'
import type { InboxStep, MessageStep, RetryStep } from './inboxSteps.js'
import { Names } from './Names.js'
import { PreparedConnection } from './PreparedConnection.js'
import { at, JUMP, SOON, timeDifference, Timeline, toMilliseconds } from './Timeline.js'

interface Connections {
  readonly ingest: Queryable
  readonly executor: Queryable
  readonly control: Queryable
  readonly superuser: Queryable
}

const WORKERS = 3
const LEASE_SECONDS = 1800
const RETENTION_SECONDS = 3600
const ERROR = 'went wrong'

/** Runs sequences of steps on the inbox and on its model. Each sequence has its own sources. */
export class InboxRunner {
  readonly #connections: Connections
  #sequences = 0

  private constructor(connections: Connections) {
    this.#connections = connections
  }

  /** @param db database that no other test uses, because the inbox is emptied after each sequence */
  static async open(db: TestDatabase): Promise<InboxRunner> {
    const as = async (role?: string): Promise<Queryable> => PreparedConnection.open(await db.connect(role), db.schema)
    return new InboxRunner({
      ingest: await as('symphony_ingest'),
      executor: await as('symphony_executor'),
      control: await as('symphony_control'),
      superuser: await as(),
    })
  }

  readonly run = async (steps: readonly InboxStep[]): Promise<void> => {
    const { superuser } = this.#connections
    try {
      await new Sequence(this.#connections, ++this.#sequences).run(steps)
    } finally {
      // Marks all messages as done first, because a trigger refuses to delete unfinished ones.
      await superuser.query(
        `UPDATE inbox_messages SET state = 'done', ended_at = clock_timestamp(), claimed_by = NULL, fence = NULL,
           claim_expires_at = NULL, claimed_at = NULL WHERE state <> 'done'`,
      )
      await superuser.query('DELETE FROM inbox_messages')
    }
  }
}

interface InboxRow {
  readonly source: string
  readonly message_id: string
  readonly topic: string | null
  readonly payload: { readonly n: number } | null
  readonly state: string
  readonly sightings: number
  readonly attempt_count: number
  readonly attempts_max: number
  readonly last_error: string | null
  readonly claimed_by: string | null
  readonly fence: string | null
  readonly due: number | null
  readonly last_seen: number
  readonly ended: number | null
  readonly expires: number | null
  readonly claimed: number | null
}

class Sequence {
  readonly #connections: Connections
  readonly #suffix: string
  readonly #model = new InboxModel()
  readonly #names = new Names<'fence'>()
  readonly #timeline = new Timeline()
  readonly #claims = new AssumedClaims<ReturnedClaim>(WORKERS)

  constructor(connections: Connections, number: number) {
    this.#connections = connections
    this.#suffix = `-${number}`
  }

  async run(steps: readonly InboxStep[]): Promise<void> {
    await this.#timeline.begin(this.#connections.superuser)
    for (const [index, step] of steps.entries()) {
      const differences = await this.#step(step)
      if (differences !== NOTHING_DONE)
        refuseDifferences(`step ${index + 1}, ${step.do}`, [...differences, ...(await this.#compare())])
    }
    refuseDifferences('at the end', await this.#compareEvents())
  }

  async #step(step: InboxStep): Promise<string[]> {
    const { ingest, executor, control } = this.#connections
    const model = this.#model
    switch (step.do) {
      case 'enqueue': {
        const deliveries = step.messages.map((message) => ({
          key: keyOf(message.key),
          ...contentOf(message),
          notBefore: message.future ? this.#timeline.future() : undefined,
        }))
        return compareAnswers(
          () => model.enqueue(deliveries),
          async () => {
            const messages = deliveries.map((delivery) => this.#spellDelivery(delivery))
            return (await enqueueInboxMessages(ingest, messages)).map(
              (row) => `${this.#read(row)} ${describeSighting(row)}`,
            )
          },
        )
      }
      case 'sight': {
        const key = keyOf(step.message.key)
        const content = step.withContent ? contentOf(step.message) : null
        return compareAnswers(
          () => model.sight(key, content),
          async () => {
            const sighted = content === null ? undefined : { topic: content.topic, payload: { n: content.payload } }
            return `${key} ${describeSighting(await recordInboxSighting(executor, this.#spell(key), sighted))}`
          },
        )
      }
      case 'claim': {
        const worker = `w${step.worker}`
        return compareAnswers(
          () => model.claim(worker, step.batch, LEASE_SECONDS, step.attemptsMax),
          async () => {
            const claimed = await claimInboxBatch(executor, step.batch, worker, LEASE_SECONDS, step.attemptsMax)
            return claimed.map((row) => {
              const key = this.#read(row)
              const fence = this.#names.of('fence', row.fence)
              this.#claims.add(step.worker, { key, fence })
              const takeover = row.takenOver ? ' taken over' : ''
              return `${key} ${fence} attempt ${row.attemptCount} of ${row.attemptsMax} sighted ${row.sightings}${takeover}`
            })
          },
        )
      }
      case 'ack':
      case 'fail':
      case 'abandon':
        return this.#endClaims(step.do, step.claims, step.retry)
      case 'mark': {
        const key = keyOf(step.key)
        return compareAnswers(
          () => model.mark(key, step.to, ERROR),
          async () => {
            if (step.to === 'dead') await markInboxDead(executor, this.#spell(key), ERROR)
            else await (step.to === 'done' ? markInboxProcessed : markInboxProcessing)(executor, this.#spell(key))
            return 'marked'
          },
        )
      }
      case 'revive': {
        const dead = model.messages.filter(({ state }) => state === 'dead')
        const message = dead[step.pick % Math.max(1, dead.length)]
        const key = step.unfiltered || message === undefined ? keyOf(step.pick % 8) : message.key
        return compareAnswers(
          () => model.revive(key),
          async () => {
            await reviveInboxMessage(control, this.#spell(key), 'said the fuzz')
            return 'revived'
          },
        )
      }
      case 'purge':
        return compareAnswers(
          () => String(model.purge(RETENTION_SECONDS)),
          async () => String(await purgeInboxMessages(executor, RETENTION_SECONDS, 1000)),
        )
      case 'nextEvent':
        return compareAnswers(
          () => toMilliseconds(model.nextEvent()),
          async () => {
            const next = await nextInboxEvent(executor)
            return toMilliseconds(next && this.#timeline.fromDate(next.at))
          },
        )
      case 'expire':
        return this.#move(
          model.messages.filter(({ claim }) => claim !== null),
          step.pick,
          (message) => (message.claim!.expires = this.#timeline.past()),
        )
      case 'makeDue':
        return this.#move(
          model.messages.filter(({ state, due }) => state === 'seen' && due !== null && at(due) > model.clock),
          step.pick,
          (message) => (message.due = this.#timeline.past()),
        )
      case 'jump': {
        const distance = step.forward ? -JUMP : JUMP
        for (const message of model.messages) {
          if (message.due !== null) message.due = at(message.due) + distance
          message.lastSeen = at(message.lastSeen) + distance
          // A jump back also moves the first sighting, because `#write` sets it no later than the last one. If the
          // message is enqueued later, its first sighting decides its place in the claim order.
          if (!message.isWork) message.order = Math.min(message.order, message.lastSeen)
          if (message.ended !== null) message.ended = at(message.ended) + distance
          // Claims of one call expire together. A small offset makes the order of their takeover unique.
          if (message.claim !== null) message.claim.expires = at(message.claim.expires) + distance + message.order
        }
        return this.#write(model.messages)
      }
      case 'crash':
        this.#claims.clear(step.worker)
        return NOTHING_DONE
    }
  }

  #endClaims(how: 'ack' | 'fail' | 'abandon', pick: ClaimPick, retry: RetryStep): Promise<string[]> {
    const { executor } = this.#connections
    const acting = this.#claims.pick(pick, (worker, claim) => this.#model.isLive(`w${worker}`, claim))
    if (acting === undefined) return Promise.resolve(NOTHING_DONE)
    const worker = `w${acting.worker}`
    const error = retry.error ? ERROR : null
    const { delaySeconds } = retry
    const chosen = acting.chosen.map(({ key, fence }) => ({ key, fence, error, delaySeconds }))
    const spelled = chosen.map(({ key, fence }) => ({
      ...this.#spell(key),
      fence: this.#names.id(fence),
      ...(error === null ? {} : { error }),
      ...(delaySeconds === null ? {} : { retryDelaySeconds: delaySeconds }),
    }))
    return compareAnswers(
      () =>
        how === 'abandon' ? this.#model.abandon(worker, chosen, retry.costsAttempt) : this.#model[how](worker, chosen),
      async () => {
        if (how === 'abandon') {
          const rows = await abandonInboxMessages(executor, spelled, worker, retry.costsAttempt)
          return rows.map((row) => `${this.#read(row)} ${row.state}`)
        }
        const end = how === 'ack' ? ackInboxMessages : failInboxMessages
        return (await end(executor, spelled, worker)).map((row) => this.#read(row))
      },
    )
  }

  async #move(among: readonly Message[], pick: number, change: (message: Message) => void): Promise<string[]> {
    const message = among[pick % Math.max(1, among.length)]
    if (message === undefined) return NOTHING_DONE
    change(message)
    return this.#write([message])
  }

  /** Returns the key in the database: `s0/m1` is message m1 of source `s0-17` in the 17th sequence. */
  #spell(key: string): InboxKey {
    const [source, messageId] = key.split('/')
    return { source: `${source}${this.#suffix}`, messageId: messageId! }
  }

  #spellDelivery({ key, topic, payload, notBefore }: Delivery): InboxMessage {
    const message = { ...this.#spell(key), topic, payload: { n: payload } }
    return notBefore === undefined ? message : { ...message, notBefore: this.#timeline.toDate(notBefore) }
  }

  #read({ source, messageId }: InboxKey): string {
    return `${source.slice(0, -this.#suffix.length)}/${messageId}`
  }

  async #compare(): Promise<string[]> {
    const { rows } = await this.#connections.superuser.query<{ clock: bigint; messages: InboxRow[] | null }>(READ, [
      this.#timeline.start,
    ])
    const clock = Number(rows[0]!.clock)
    const stored = new Map(
      (rows[0]!.messages ?? []).map((row) => [this.#read({ source: row.source, messageId: row.message_id }), row]),
    )
    const expected = this.#model.messages
    const differences = expected.flatMap((message) => this.#compareRow(message, stored.get(message.key), clock))
    this.#model.clock = clock
    if (differences.length === 0) await this.#postpone(expected)
    return [...differences, ...fieldDifferences('the table', { rows: [expected.length, stored.size] })]
  }

  #compareRow(message: Message, row: InboxRow | undefined, clock: number): string[] {
    const { key, content, isWork, claim, due, ended } = message
    if (row === undefined) return [`${key}: not in the inbox`]
    const known = { call: [this.#model.clock, clock], claim: row.claimed } as const
    const differences = [
      ...fieldDifferences(key, {
        content: [
          isWork ? `${content!.topic} ${content!.payload}` : null,
          row.topic && `${row.topic} ${row.payload!.n}`,
        ],
        state: [message.state, row.state],
        sightings: [message.sightings, row.sightings],
        attempts: [`${message.attempts} of ${message.attemptsMax}`, `${row.attempt_count} of ${row.attempts_max}`],
        error: [message.error, row.last_error],
        claim: [
          claim && `${claim.fence} of ${claim.worker}`,
          row.fence && `${this.#names.known(row.fence)} of ${row.claimed_by}`,
        ],
        'is due': [due !== null, row.due !== null],
        'has ended': [ended !== null, row.ended !== null],
      }),
      ...(due === null ? [] : timeDifference(`${key}: due`, due, row.due, known)),
      ...timeDifference(`${key}: last seen`, message.lastSeen, row.last_seen, known),
      ...(ended === null ? [] : timeDifference(`${key}: ended`, ended, row.ended, known)),
      ...(claim === null ? [] : timeDifference(`${key}: claimed until`, claim.expires, row.expires, known)),
    ]
    if (differences.length > 0) return differences
    if (claim !== null) claim.expires = row.expires!
    if (ended !== null) message.ended = row.ended!
    message.lastSeen = row.last_seen
    const comesDueSoon = due !== null && typeof due !== 'number' && due.min > 0 && due.max < SOON
    if (!comesDueSoon) message.due = row.due
    return []
  }

  async #postpone(messages: readonly Message[]): Promise<void> {
    const soon = messages.filter(({ due }) => due !== null && typeof due !== 'number')
    for (const message of soon) message.due = this.#timeline.future()
    if (soon.length > 0) await this.#write(soon)
  }

  async #write(messages: readonly Message[]): Promise<string[]> {
    const micros = (time: Message['due']): number | null => (time === null ? null : this.#timeline.start + at(time))
    const keys = messages.map(({ key }) => this.#spell(key))
    await this.#connections.superuser.query(WRITE, [
      keys.map(({ source }) => source),
      keys.map(({ messageId }) => messageId),
      messages.map(({ due }) => micros(due)),
      messages.map(({ ended }) => micros(ended)),
      messages.map(({ claim }) => micros(claim && claim.expires)),
      messages.map(({ lastSeen }) => micros(lastSeen)),
    ])
    return []
  }

  /** Compares events once at the end of a sequence, because events are never deleted. */
  async #compareEvents(): Promise<string[]> {
    const { rows } = await this.#connections.superuser.query<{ source: string; message_id: string; events: string[] }>(
      EVENTS,
      [['s0', 's1'].map((source) => `${source}${this.#suffix}`)],
    )
    const stored = new Map(
      rows.map((row) => [this.#read({ source: row.source, messageId: row.message_id }), row.events.join(', ')]),
    )
    const keys = new Set([...stored.keys(), ...this.#model.events.keys()])
    return [...keys].flatMap((key) => {
      const expected = this.#model.events.get(key)?.map((event) => event.split(' ')[0])
      return fieldDifferences(key, { events: [expected?.join(', '), stored.get(key)] })
    })
  }
}

function keyOf(number: number): string {
  return `s${number % 2}/m${Math.floor(number / 2)}`
}

function contentOf({ topic, payload }: MessageStep): Content {
  return { topic: `t${topic}`, payload }
}

function describeSighting({
  state,
  sightings,
  created,
  contentDiffers,
}: {
  readonly state: string
  readonly sightings: bigint
  readonly created: boolean
  readonly contentDiffers: boolean
}): string {
  return `${state} ${sightings}${created ? ' created' : ''}${contentDiffers ? ' differs' : ''}`
}

const READ = `
  SELECT epoch_micros(clock_timestamp()) - $1::bigint AS clock, (SELECT json_agg(q) FROM (
    SELECT m.source, m.message_id, m.topic, m.payload, m.state, m.sightings, m.attempt_count, m.attempts_max, m.last_error,
      m.claimed_by, m.fence, epoch_micros(m.due_at) - $1::bigint AS due, epoch_micros(m.ended_at) - $1::bigint AS ended,
      epoch_micros(m.last_seen_at) - $1::bigint AS last_seen,
      epoch_micros(m.claim_expires_at) - $1::bigint AS expires, epoch_micros(m.claimed_at) - $1::bigint AS claimed
    FROM inbox_messages m) q) AS messages`

const WRITE = `
  UPDATE inbox_messages m
  SET due_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond',
    ended_at = 'epoch'::timestamptz + moved.ended * interval '1 microsecond',
    claim_expires_at = 'epoch'::timestamptz + moved.expires * interval '1 microsecond',
    last_seen_at = 'epoch'::timestamptz + moved.last_seen * interval '1 microsecond',
    -- Keeps the first sighting no later than the last one. An enqueued message keeps its own, which decides the claim
    -- order.
    first_seen_at = CASE WHEN m.topic IS NULL
      THEN LEAST(m.first_seen_at, 'epoch'::timestamptz + moved.last_seen * interval '1 microsecond') ELSE m.first_seen_at END
  FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
    AS moved(source, message_id, due, ended, expires, last_seen)
  WHERE m.source = moved.source AND m.message_id = moved.message_id`

const EVENTS = `
  SELECT source, message_id, array_agg(event_type ORDER BY created_at, event_id) AS events
  FROM inbox_events WHERE source = ANY ($1) GROUP BY source, message_id`
