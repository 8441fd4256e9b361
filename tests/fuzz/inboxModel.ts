import { Refusal } from './answers.js'
import { at, backoff, exactly, SECOND, type Rule, type Time } from './Timeline.js'

/*
 * Model of the inbox, written from the specification. A message is unique by source and id. Claims change the state of
 * enqueued messages; marks change the state of messages that were only sighted. A message without attempts left is dead
 * until it is revived.
 */

export type InboxState = 'seen' | 'processing' | 'done' | 'dead'
export type Mark = 'processing' | 'done' | 'dead'

export interface Content {
  readonly topic: string
  readonly payload: number
}

export interface Claim {
  readonly fence: string
  readonly worker: string
  expires: Time
}

export interface Message {
  /** Source and id: `s0/m1`. */
  readonly key: string
  /** Order of arrival. */
  order: number
  /** First content. Null if no call has given a content yet. */
  content: Content | null
  /** False for a message that was only sighted. */
  isWork: boolean
  state: InboxState
  sightings: number
  attempts: number
  attemptsMax: number
  due: Time | null
  lastSeen: Time
  ended: Time | null
  error: string | null
  claim: Claim | null
}

export interface Delivery extends Content {
  readonly key: string
  readonly notBefore: number | undefined
}

export interface ReturnedClaim {
  readonly key: string
  readonly fence: string
}

export interface Retry extends ReturnedClaim {
  readonly error: string | null
  /** Delay in seconds. Null for the backoff of the database. */
  readonly delaySeconds: number | null
}

/** Rows of one batch get times that differ by a few microseconds. */
const JUST_NOW: Rule = { since: 'call', min: 0, max: 10 }

export class InboxModel {
  readonly #messages = new Map<string, Message>()
  /**
   * Events by message key, kept after the message is purged. Several deliveries with the same changed content give one
   * event.
   */
  readonly events = new Map<string, string[]>()
  #arrivals = 0
  #fences = 0
  clock = 0

  get messages(): readonly Message[] {
    return [...this.#messages.values()]
  }

  enqueue(deliveries: readonly Delivery[]): string[] {
    return deliveries.map(({ key, notBefore, ...content }) => this.#sight(key, content, true, notBefore))
  }

  sight(key: string, content: Content | null): string {
    return this.#sight(key, content, false, undefined)
  }

  #sight(key: string, content: Content | null, asWork: boolean, notBefore: number | undefined): string {
    const known = this.#messages.get(key)
    const due = asWork ? (notBefore ?? JUST_NOW) : null
    if (known === undefined) {
      this.#messages.set(key, {
        key,
        order: this.#arrivals++,
        content,
        isWork: asWork,
        state: 'seen',
        sightings: 1,
        attempts: 0,
        attemptsMax: 20,
        due,
        lastSeen: JUST_NOW,
        ended: null,
        error: null,
        claim: null,
      })
      return `${key} seen 1 created`
    }
    known.sightings++
    // The last sighting never moves back, even if the clock does.
    if (typeof known.lastSeen === 'number') known.lastSeen = { ...JUST_NOW, notBefore: known.lastSeen }
    const differs = known.content !== null && content !== null && !sameContent(known.content, content)
    const becomesWork = asWork && !known.isWork && known.state === 'seen' && !differs
    known.content ??= content
    if (becomesWork) {
      known.isWork = true
      known.due = due
    }
    if (differs) this.#noteOnce(key, `CONTENT_DIFFERS ${content.topic} ${content.payload}`)
    return `${key} ${known.state} ${known.sightings}${becomesWork ? ' created' : ''}${differs ? ' differs' : ''}`
  }

  /** Takes over expired claims first, then claims due messages. A message without attempts left becomes dead. */
  claim(worker: string, batchSize: number, leaseSeconds: number, attemptsMax: number): string[] {
    const expired = this.messages
      .filter(({ claim }) => claim !== null && at(claim.expires) <= this.clock)
      .toSorted((a, b) => at(a.claim!.expires) - at(b.claim!.expires))
      .slice(0, batchSize)
    for (const message of expired) {
      message.error = `attempt ${message.attempts}: the claim of worker ${message.claim!.worker} expired before it answered`
      message.state = 'seen'
      message.claim = null
    }
    const due = this.messages
      .filter((message) => message.state === 'seen' && message.isWork && at(message.due!) <= this.clock)
      .filter((message) => !expired.includes(message))
      .toSorted(byDueTime)
      .slice(0, batchSize - expired.length)
    return [...expired, ...due].toSorted(byDueTime).flatMap((message) => {
      if (message.attempts >= attemptsMax) {
        this.#deadLetter(message, null)
        return []
      }
      const fence = `fence${++this.#fences}`
      message.state = 'processing'
      message.attempts++
      message.attemptsMax = attemptsMax
      message.claim = { fence, worker, expires: exactly('claim', leaseSeconds * SECOND) }
      const takeover = expired.includes(message) ? ' taken over' : ''
      return [
        `${message.key} ${fence} attempt ${message.attempts} of ${attemptsMax} sighted ${message.sightings}${takeover}`,
      ]
    })
  }

  ack(worker: string, claims: readonly ReturnedClaim[]): string[] {
    return this.#changed(worker, claims, (message) => {
      this.#end(message, 'done')
      return message.key
    })
  }

  fail(worker: string, claims: readonly Retry[]): string[] {
    return this.#changed(worker, claims, (message, { error }) => {
      this.#deadLetter(message, error)
      return message.key
    })
  }

  abandon(worker: string, claims: readonly Retry[], costsAttempt: boolean): string[] {
    return this.#changed(worker, claims, (message, { error, delaySeconds }) => {
      if (costsAttempt && message.attempts >= message.attemptsMax) {
        this.#deadLetter(message, error)
      } else {
        message.due = delaySeconds === null ? backoff('call', message.attempts) : exactly('call', delaySeconds * SECOND)
        message.state = 'seen'
        message.claim = null
        message.error = error ?? message.error
        if (!costsAttempt) message.attempts--
      }
      return `${message.key} ${message.state}`
    })
  }

  /** Changes the messages of live claims. The answer omits claims that are lost, repeated or of another worker. */
  #changed<C extends ReturnedClaim>(
    worker: string,
    claims: readonly C[],
    change: (message: Message, claim: C) => string,
  ): string[] {
    return claims.flatMap((shown) =>
      this.isLive(worker, shown) ? [change(this.#messages.get(shown.key)!, shown)] : [],
    )
  }

  isLive(worker: string, { key, fence }: ReturnedClaim): boolean {
    const claim = this.#messages.get(key)?.claim
    return claim?.fence === fence && claim.worker === worker && at(claim.expires) > this.clock
  }

  mark(key: string, to: Mark, error: string | null): string {
    const message = this.#known(key)
    const isRepeated = message.state === to && to !== 'processing'
    if (!message.isWork && isRepeated) return 'marked'
    const canMove = message.state === 'processing' || (message.state === 'seen' && to !== 'done')
    if (message.isWork || !canMove) throw new Refusal('P7010')
    if (to === 'processing') {
      message.state = to
      message.attempts++
    } else if (to === 'dead') this.#deadLetter(message, error)
    else this.#end(message, to)
    return 'marked'
  }

  revive(key: string): string {
    const message = this.#known(key)
    if (message.state !== 'dead') throw new Refusal('P7010')
    message.state = 'seen'
    message.ended = null
    message.attempts = 0
    if (message.isWork) message.due = JUST_NOW
    this.#note(key, 'REVIVED')
    return 'revived'
  }

  /** Deletes old messages that are done or were only sighted. */
  purge(keepSeconds: number): number {
    const before = this.clock - keepSeconds * SECOND
    const old = this.messages.filter(({ state, isWork, ended, lastSeen }) => {
      if (state === 'done') return at(ended!) <= before
      return state === 'seen' && !isWork && at(lastSeen) <= before
    })
    for (const { key } of old) this.#messages.delete(key)
    return old.length
  }

  nextEvent(): number | null {
    const times = this.messages.flatMap(({ state, isWork, due, claim }) => [
      ...(state === 'seen' && isWork ? [at(due!)] : []),
      ...(claim === null ? [] : [at(claim.expires)]),
    ])
    return times.length === 0 ? null : Math.min(...times)
  }

  #known(key: string): Message {
    const message = this.#messages.get(key)
    if (message === undefined) throw new Refusal('P7011')
    return message
  }

  /** Ends the message as dead, with its last error. */
  #deadLetter(message: Message, error: string | null): void {
    this.#end(message, 'dead')
    message.error = error ?? message.error ?? 'no error was reported'
    this.#note(message.key, 'DIED')
  }

  #end(message: Message, state: 'done' | 'dead'): void {
    message.state = state
    message.claim = null
    message.ended = JUST_NOW
  }

  #noteOnce(key: string, event: string): void {
    if (this.events.get(key)?.includes(event) !== true) this.#note(key, event)
  }

  #note(key: string, event: string): void {
    this.events.set(key, [...(this.events.get(key) ?? []), event])
  }
}

function sameContent(a: Content, b: Content): boolean {
  return a.topic === b.topic && a.payload === b.payload
}

function byDueTime(a: Message, b: Message): number {
  return at(a.due!) - at(b.due!) || a.order - b.order
}
