import { Refusal } from './answers.js'
import { at, exactly, NOW, SECOND, type Time } from './Timeline.js'

/*
 * Model of the scheduler, written from the specification. Timers and job runs have the same states: ready, claimed
 * under a lease, and ended once. A job creates one run per occurrence, and none if the job has changed since the
 * occurrences were computed.
 */

export type Kind = 'timer' | 'run'
export type Delivery = 'outbox' | 'claim'

export interface Work {
  /** Name: timer1, run1, … in the order of creation. */
  readonly name: string
  readonly kind: Kind
  readonly topic: string
  readonly delivery: Delivery
  /** Job of a run. Each run of a job has its own occurrence. */
  readonly job: string | null
  occurrence: Time | null
  due: Time
  state: 'READY' | 'CLAIMED' | 'DONE' | 'ENQUEUED' | 'FAILED' | 'CANCELLED'
  attempts: number
  error: string | null
  claim: { readonly token: string; readonly worker: string; expires: Time } | null
  finished: Time | null
}

export interface Job {
  readonly name: string
  cron: string
  topic: string
  delivery: Delivery
  state: 'ACTIVE' | 'PAUSED'
  due: Time
  /** Time until which the job is skipped, because its schedule could not be parsed. */
  postponedUntil: Time | null
  revision: number
}

export interface Definition {
  readonly cron: string
  readonly topic: string
  readonly delivery: Delivery
  readonly due: number
}

export interface ReturnedClaim {
  readonly name: string
  readonly token: string
}

export const ATTEMPTS_MAX = 20

export class SchedulerModel {
  #works: Work[] = []
  readonly #jobs = new Map<string, Job>()
  readonly #counts = { timer: 0, run: 0, token: 0 }
  clock = 0

  get works(): readonly Work[] {
    return this.#works
  }

  get jobs(): readonly Job[] {
    return [...this.#jobs.values()]
  }

  job(name: string): Job | undefined {
    return this.#jobs.get(name)
  }

  // Work ------------------------------------------------------------------------------------------------------------

  schedule(topic: string, delivery: Delivery, due: number): string {
    return this.#make({ kind: 'timer', topic, delivery, job: null, occurrence: null, due }).name
  }

  #make(work: Pick<Work, 'kind' | 'topic' | 'delivery' | 'job' | 'occurrence' | 'due'>): Work {
    const name = `${work.kind}${++this.#counts[work.kind]}`
    const made: Work = { ...work, name, state: 'READY', attempts: 0, error: null, claim: null, finished: null }
    this.#works.push(made)
    return made
  }

  cancel(name: string): boolean {
    const work = this.#works.find((candidate) => candidate.name === name)
    if (work === undefined || (work.state !== 'READY' && work.state !== 'CLAIMED')) return false
    this.#end(work, 'CANCELLED', work.error)
    return true
  }

  claim(
    kind: Kind,
    worker: string,
    batchSize: number,
    leaseSeconds: number,
    topics: readonly string[] | null,
  ): string[] {
    this.#returnExpired(kind)
    return this.#due(kind, (work) => topics === null || topics.includes(work.topic), batchSize).map((work) => {
      const token = `token${++this.#counts.token}`
      work.state = 'CLAIMED'
      work.attempts++
      work.claim = { token, worker, expires: exactly('claim', leaseSeconds * SECOND) }
      return `${work.name} ${work.topic} ${token} attempt ${work.attempts}`
    })
  }

  /** Enqueues the messages of due work, and ends that work. */
  enqueueDue(kind: Kind, batchSize: number): string[] {
    this.#returnExpired(kind)
    return this.#due(kind, (work) => work.delivery === 'outbox', batchSize).map((work) => {
      this.#end(work, 'ENQUEUED', null)
      return `${work.name} ${work.topic} enqueued`
    })
  }

  #due(kind: Kind, suits: (work: Work) => boolean, batchSize: number): Work[] {
    return this.#works
      .filter((work) => work.kind === kind && work.state === 'READY' && at(work.due) <= this.clock && suits(work))
      .toSorted((a, b) => at(a.due) - at(b.due))
      .slice(0, batchSize)
  }

  /** Releases work whose claim has expired, and records the expiry as the error of the work. */
  #returnExpired(kind: Kind): void {
    for (const work of this.#works)
      if (work.kind === kind && work.claim !== null && at(work.claim.expires) <= this.clock)
        this.#release(work, `the claim of ${work.claim.worker} expired`)
  }

  #release(work: Work, error: string): void {
    if (work.job !== null && !this.#jobs.has(work.job)) this.#end(work, 'CANCELLED', error)
    else if (work.attempts >= ATTEMPTS_MAX) this.#end(work, 'FAILED', error)
    else Object.assign(work, { state: 'READY', error, claim: null })
  }

  ack(worker: string, claims: readonly ReturnedClaim[]): string[] {
    return this.#endClaims(worker, claims, (work) => this.#end(work, 'DONE', null))
  }

  fail(worker: string, claims: readonly ReturnedClaim[], error: string | null): string[] {
    return this.#endClaims(worker, claims, (work) => this.#end(work, 'FAILED', error))
  }

  abandon(worker: string, claims: readonly ReturnedClaim[], error: string | null, delaySeconds: number): string[] {
    return this.#endClaims(worker, claims, (work) => {
      this.#release(work, error ?? 'abandoned')
      if (delaySeconds > 0) work.due = exactly('call', delaySeconds * SECOND)
    })
  }

  /** Ends the work of live claims. The answer omits claims that are lost, repeated or of another worker. */
  #endClaims(worker: string, claims: readonly ReturnedClaim[], end: (work: Work) => void): string[] {
    return claims.flatMap((claim) => {
      if (!this.isLive(worker, claim)) return []
      end(this.#works.find(({ name }) => name === claim.name)!)
      return [claim.name]
    })
  }

  isLive(worker: string, { name, token }: ReturnedClaim): boolean {
    const claim = this.#works.find((work) => work.name === name)?.claim
    return claim?.token === token && claim.worker === worker && at(claim.expires) > this.clock
  }

  #end(work: Work, state: 'DONE' | 'ENQUEUED' | 'FAILED' | 'CANCELLED', error: string | null): void {
    Object.assign(work, { state, error, claim: null, finished: NOW })
  }

  purge(kind: Kind, retentionSeconds: number): number {
    const before = this.clock - retentionSeconds * SECOND
    const kept = this.#works.filter(
      (work) => work.kind !== kind || work.finished === null || at(work.finished) >= before,
    )
    const purged = this.#works.length - kept.length
    this.#works = kept
    return purged
  }

  // Jobs ------------------------------------------------------------------------------------------------------------

  /** Defines a job. A new definition with the same schedule keeps the next occurrence. */
  define(name: string, { due, ...content }: Definition): string {
    const known = this.#jobs.get(name)
    if (known === undefined) {
      this.#jobs.set(name, { name, ...content, state: 'ACTIVE', due, postponedUntil: null, revision: 1 })
      return `${due} ACTIVE created`
    }
    const keepsDue = known.cron === content.cron
    const revision = known.revision + 1
    Object.assign(known, content, { revision, due: keepsDue ? known.due : due, postponedUntil: null })
    return `${at(known.due)} ${known.state} updated`
  }

  pause(name: string): boolean {
    const job = this.#known(name)
    if (job.state === 'PAUSED') return false
    job.state = 'PAUSED'
    job.revision++
    return true
  }

  resume(name: string, revision: number, due: number): boolean {
    const job = this.#known(name)
    if (job.state === 'ACTIVE' || job.revision !== revision) return false
    const later = Math.max(at(job.due), due)
    Object.assign(job, { state: 'ACTIVE', revision: revision + 1, due: later, postponedUntil: null })
    return true
  }

  trigger(name: string): string {
    const { topic, delivery } = this.#known(name)
    return this.#make({ kind: 'run', topic, delivery, job: name, occurrence: NOW, due: NOW }).name
  }

  /** Deletes a job with its ready runs. Ended runs stay. */
  delete(name: string): string {
    const deleted = this.#jobs.delete(name)
    const kept = this.#works.filter(({ job, state }) => job !== name || state !== 'READY')
    const removed = this.#works.length - kept.length
    this.#works = kept
    return `${deleted} ${removed}`
  }

  dueJobs(batchSize: number): string[] {
    return this.jobs
      .filter((job) => job.state === 'ACTIVE' && lookedAt(job) <= this.clock)
      .toSorted((a, b) => lookedAt(a) - lookedAt(b))
      .slice(0, batchSize)
      .map(({ name, revision }) => `${name} ${revision}`)
  }

  /** Creates one run per occurrence, even if several schedulers call. */
  createRuns(name: string, revision: number, due: number, occurrences: readonly number[]): string[] {
    const job = this.#jobs.get(name)
    if (job?.state !== 'ACTIVE' || job.revision !== revision) return []
    Object.assign(job, { due, postponedUntil: null, revision: revision + 1 })
    return occurrences
      .filter((occurrence) => !this.#works.some((work) => work.job === name && work.occurrence === occurrence))
      .toSorted((a, b) => a - b)
      .map((occurrence) => {
        const { topic, delivery } = job
        return this.#make({ kind: 'run', topic, delivery, job: name, occurrence, due: occurrence }).name
      })
  }

  /** Postpones a job and keeps its due time. */
  postpone(name: string, revision: number): boolean {
    const job = this.#jobs.get(name)
    if (job?.revision !== revision) return false
    Object.assign(job, { postponedUntil: exactly('call', 60 * SECOND), revision: revision + 1 })
    return true
  }

  #known(name: string): Job {
    const job = this.#jobs.get(name)
    if (job === undefined) throw new Refusal('P7012')
    return job
  }

  nextEvent(outboxOnly: boolean): number | null {
    const times = [
      ...this.#works.flatMap((work) => {
        if (work.claim !== null) return [at(work.claim.expires)]
        return work.state === 'READY' && (!outboxOnly || work.delivery === 'outbox') ? [at(work.due)] : []
      }),
      ...this.jobs.flatMap((job) => (job.state === 'ACTIVE' ? [lookedAt(job)] : [])),
    ]
    return times.length === 0 ? null : Math.min(...times)
  }
}

function lookedAt({ due, postponedUntil }: Job): number {
  return postponedUntil === null ? at(due) : Math.max(at(due), at(postponedUntil))
}
