import { call, type Queryable } from '../../libs/db/index.js'
import type { TestDatabase } from '../support/database.js'
import { compareAnswers, NOTHING_DONE, refuseDifferences } from './answers.js'
import { AssumedClaims, type ClaimPick } from './AssumedClaims.js'
import { Names } from './Names.js'
import { PreparedConnection } from './PreparedConnection.js'
import { ATTEMPTS_MAX, SchedulerModel, type ReturnedClaim, type Kind, type Work } from './schedulerModel.js'
import type { OccurrenceStep, RetryStep, SchedulerStep } from './schedulerSteps.js'
import { SchedulerTables } from './schedulerTables.js'
import { at, JUMP, Timeline, toMilliseconds, type Time } from './Timeline.js'

interface Connections {
  readonly ingest: Queryable
  readonly executor: Queryable
  readonly control: Queryable
  readonly superuser: Queryable
}

/** Number of workers. With two, a worker often claims a task again that it lost. */
const WORKERS = 2
const LEASE_SECONDS = 1800
const RETENTION_SECONDS = 3600
const ERROR = 'went wrong'
/** Creates timers, a job and runs before the first random step. */
const PRELUDE: readonly SchedulerStep[] = [
  { do: 'schedule', topic: 0, delivery: 'claim', future: false },
  { do: 'schedule', topic: 1, delivery: 'outbox', future: false },
  { do: 'define', job: 0, cron: 0, topic: 0, delivery: 'claim', future: false },
  { do: 'createRuns', job: 0, stale: false, occurrences: ['past', 'past'] },
]
/** Name parts of SQL functions and columns. Timers and runs have the same functions under different names. */
const NAMES = {
  timer: { id: 'timer_id', plural: 'timers' },
  run: { id: 'run_id', plural: 'job_runs' },
} as const

/** Runs sequences of steps on the scheduler and on its model. Each sequence has its own jobs and topics. */
export class SchedulerRunner {
  readonly #connections: Connections
  #sequences = 0

  private constructor(connections: Connections) {
    this.#connections = connections
  }

  /** @param db database that no other test uses, because scheduler and outbox queue are emptied after each sequence */
  static async open(db: TestDatabase): Promise<SchedulerRunner> {
    const as = async (role?: string): Promise<Queryable> => PreparedConnection.open(await db.connect(role), db.schema)
    return new SchedulerRunner({
      ingest: await as('symphony_ingest'),
      executor: await as('symphony_executor'),
      control: await as('symphony_control'),
      superuser: await as(),
    })
  }

  readonly run = async (steps: readonly SchedulerStep[]): Promise<void> => {
    try {
      await new Sequence(this.#connections, ++this.#sequences).run(steps)
    } finally {
      for (const table of ['scheduler_tasks', 'scheduler_jobs', 'payment_outbox_pending'])
        await this.#connections.superuser.query(`DELETE FROM ${table}`)
    }
  }
}

class Sequence {
  readonly #connections: Connections
  readonly #suffix: string
  readonly #model = new SchedulerModel()
  readonly #names = new Names<Kind | 'token'>()
  readonly #timeline = new Timeline()
  readonly #tables: SchedulerTables
  readonly #claims = new AssumedClaims<ReturnedClaim>(WORKERS)

  constructor(connections: Connections, number: number) {
    this.#connections = connections
    this.#suffix = `-${number}`
    this.#tables = new SchedulerTables(connections.superuser, this.#timeline, this.#model, this.#names, this.#suffix)
  }

  async run(steps: readonly SchedulerStep[]): Promise<void> {
    await this.#timeline.begin(this.#connections.superuser)
    for (const [index, step] of [...PRELUDE, ...steps].entries()) {
      const differences = await this.#step(step)
      if (differences !== NOTHING_DONE)
        refuseDifferences(`step ${index + 1 - PRELUDE.length}, ${step.do}`, [
          ...differences,
          ...(await this.#tables.compare()),
        ])
    }
  }

  async #step(step: SchedulerStep): Promise<string[]> {
    const { ingest, executor, control } = this.#connections
    const model = this.#model
    switch (step.do) {
      case 'schedule': {
        const due = step.future ? this.#timeline.future() : this.#timeline.past()
        const topic = `t${step.topic}`
        const values = [this.#full(topic), '{}', this.#timeline.toDate(due), null, step.delivery]
        return compareAnswers(
          () => model.schedule(topic, step.delivery, due),
          async () => this.#names.of('timer', await scalar<string>(ingest, 'schedule_timer', values)),
        )
      }
      case 'cancel': {
        const timers = model.works.filter(({ kind }) => kind === 'timer')
        const timer = timers[step.pick % Math.max(1, timers.length)]
        if (timer === undefined) return NOTHING_DONE
        return compareAnswers(
          () => String(model.cancel(timer.name)),
          async () => String(await scalar(ingest, 'cancel_timer', [this.#names.id(timer.name)])),
        )
      }
      case 'claim': {
        const worker = `w${step.worker}`
        const topics = [null, ['t0'], ['t1']][step.topics]!
        const values = [step.batch, worker, LEASE_SECONDS, topics && topics.map((topic) => this.#full(topic))]
        return compareAnswers(
          () => model.claim(step.kind, worker, step.batch, LEASE_SECONDS, topics),
          async () => {
            const rows = await call<ClaimRow>(executor, `claim_${NAMES[step.kind].plural}`, values)
            return rows.map((row) => this.#describeClaimed(step.kind, step.worker, row))
          },
        )
      }
      case 'enqueueDue':
        return compareAnswers(
          () => model.enqueueDue(step.kind, step.batch),
          async () => {
            const rows = await call<ClaimRow>(executor, `enqueue_due_${NAMES[step.kind].plural}`, [step.batch])
            return rows.map((row) => {
              const outcome = row.outbox_id === null ? 'refused' : 'enqueued'
              return `${this.#nameOf(step.kind, row)} ${this.#short(row.topic)} ${outcome}`
            })
          },
        )
      case 'ack':
      case 'fail':
      case 'abandon':
        return this.#endClaims(step.do, step.kind, step.claims, step.retry)
      case 'define': {
        const due = step.future ? this.#timeline.future() : this.#timeline.past()
        const { delivery } = step
        const [cron, topic] = [`cron ${step.cron}`, `t${step.topic}`]
        const name = `j${step.job}`
        const payload = '{}'
        return compareAnswers(
          () => model.define(name, { cron, topic, delivery, due }),
          async () => {
            const values = [this.#full(name), cron, 'UTC', this.#full(topic), payload, this.#timeline.toDate(due), null]
            const [row] = await call<{ next_due_at: Date; state: string; created: boolean }>(
              control,
              'create_or_update_job',
              [...values, 'once', delivery],
            )
            const known = model.job(name)!
            // A Date has only milliseconds. The comparison of the tables checks the microseconds.
            const dueSecond = Math.floor(this.#timeline.fromDate(row!.next_due_at) / 1_000)
            const next = dueSecond === Math.floor(at(known.due) / 1_000) ? at(known.due) : dueSecond
            return `${next} ${row!.state} ${row!.created ? 'created' : 'updated'}`
          },
        )
      }
      case 'pauseJob':
        return compareAnswers(
          () => String(model.pause(`j${step.job}`)),
          async () => String(await scalar(control, 'pause_job', [this.#full(`j${step.job}`)])),
        )
      case 'resumeJob': {
        const due = this.#timeline.future()
        const revision = this.#revision(step.job, step.stale)
        return compareAnswers(
          () => String(model.resume(`j${step.job}`, revision, due)),
          async () => {
            const values = [this.#full(`j${step.job}`), revision, this.#timeline.toDate(due)]
            return String(await scalar(control, 'resume_job', values))
          },
        )
      }
      case 'trigger':
        return compareAnswers(
          () => model.trigger(`j${step.job}`),
          async () => {
            const [row] = await call<{ run_id: string }>(control, 'trigger_job', [this.#full(`j${step.job}`)])
            return this.#names.of('run', row!.run_id)
          },
        )
      case 'deleteJob':
        return compareAnswers(
          () => model.delete(`j${step.job}`),
          async () => {
            const values = [this.#full(`j${step.job}`)]
            const [row] = await call<{ deleted: boolean; runs_removed: number }>(control, 'delete_job', values)
            return `${row!.deleted} ${row!.runs_removed}`
          },
        )
      case 'dueJobs':
        return compareAnswers(
          () => model.dueJobs(step.batch),
          async () => {
            const rows = await call<{ job_name: string; revision: bigint }>(executor, 'due_jobs', [step.batch])
            return rows.map((row) => `${this.#short(row.job_name)} ${row.revision}`)
          },
        )
      case 'createRuns':
        return this.#createRuns(`j${step.job}`, this.#revision(step.job, step.stale), step.occurrences)
      case 'postpone': {
        const revision = this.#revision(step.job, step.stale)
        return compareAnswers(
          () => String(model.postpone(`j${step.job}`, revision)),
          async () => String(await scalar(executor, 'postpone_job', [this.#full(`j${step.job}`), revision, ERROR])),
        )
      }
      case 'purge':
        return compareAnswers(
          () => String(model.purge(step.kind, RETENTION_SECONDS)),
          async () => {
            const values = [RETENTION_SECONDS, 1000]
            return String(await scalar(executor, `purge_finished_${NAMES[step.kind].plural}`, values))
          },
        )
      case 'nextEvent':
        return compareAnswers(
          () => toMilliseconds(model.nextEvent(step.outboxOnly)),
          async () => {
            const next = await scalar<Date | null>(executor, 'next_scheduler_event', [step.outboxOnly])
            return toMilliseconds(next && this.#timeline.fromDate(next))
          },
        )
      case 'expire':
        return this.#move(
          step.pick,
          ({ claim }) => claim !== null,
          (work) => {
            work.claim!.expires = this.#timeline.past()
          },
        )
      case 'makeDue':
        return this.#move(
          step.pick,
          ({ state, due }) => state === 'READY' && at(due) > model.clock,
          (work) => {
            work.due = this.#timeline.past()
          },
        )
      case 'exhaustAttempts':
        // Sets 19 earlier attempts, because 19 real claims would take longer than a sequence.
        return this.#move(
          step.pick,
          ({ state, attempts }) => state === 'READY' && attempts < ATTEMPTS_MAX,
          (work) => {
            work.attempts = ATTEMPTS_MAX - 1
          },
        )
      case 'makeJobDue': {
        const job = model.jobs[step.pick % Math.max(1, model.jobs.length)]
        if (job === undefined) return NOTHING_DONE
        job.due = this.#timeline.past()
        if (job.postponedUntil !== null) job.postponedUntil = this.#timeline.past()
        return this.#tables.write([], [job])
      }
      case 'jump': {
        const shift = (time: Time, further = 0): number => at(time) + (step.forward ? -JUMP : JUMP) + further
        for (const work of model.works) {
          work.due = shift(work.due)
          if (work.finished !== null) work.finished = shift(work.finished)
          if (work.claim !== null) work.claim.expires = shift(work.claim.expires)
        }
        for (const job of model.jobs) {
          job.due = shift(job.due)
          if (job.postponedUntil !== null) job.postponedUntil = shift(job.postponedUntil)
        }
        return this.#tables.write(model.works, model.jobs)
      }
      case 'crash':
        this.#claims.clear(step.worker)
        return NOTHING_DONE
    }
  }

  #createRuns(job: string, revision: number, steps: readonly OccurrenceStep[]): Promise<string[]> {
    const had = this.#model.works.find((work) => work.job === job)?.occurrence
    const occurrences = steps.map((step) => {
      if (step === 'repeated' && typeof had === 'number' && had % 1_000 === 0) return had
      return step === 'future' ? this.#timeline.future() : this.#timeline.past()
    })
    const distinct = [...new Set(occurrences)]
    const due = this.#timeline.future()
    const lines: readonly (number | null)[] = distinct.length === 0 ? [null] : distinct
    return compareAnswers(
      () => this.#model.createRuns(job, revision, due, distinct),
      async () => {
        const rows = await call<{ run_id: string }>(this.#connections.executor, 'create_job_runs', [
          lines.map(() => this.#full(job)),
          lines.map(() => revision),
          lines.map(() => this.#timeline.toDate(due)),
          lines.map((occurrence) => (occurrence === null ? null : this.#timeline.toDate(occurrence))),
        ])
        return rows.map((row) => this.#names.of('run', row.run_id))
      },
    )
  }

  #endClaims(how: 'ack' | 'fail' | 'abandon', kind: Kind, pick: ClaimPick, retry: RetryStep): Promise<string[]> {
    const acting = this.#claims.pick(
      pick,
      (worker, claim) => this.#model.isLive(`w${worker}`, claim),
      ({ name }) => name.startsWith(kind),
    )
    if (acting === undefined) return Promise.resolve(NOTHING_DONE)
    const { chosen } = acting
    const worker = `w${acting.worker}`
    const error = retry.error ? ERROR : null
    const rest = { ack: [], fail: [error], abandon: [error, retry.delaySeconds] }[how]
    return compareAnswers(
      () => {
        if (how === 'ack') return this.#model.ack(worker, chosen)
        if (how === 'fail') return this.#model.fail(worker, chosen, error)
        return this.#model.abandon(worker, chosen, error, retry.delaySeconds)
      },
      async () => {
        const rows = await call<Record<string, string>>(this.#connections.executor, `${how}_${NAMES[kind].plural}`, [
          chosen.map(({ name }) => this.#names.id(name)),
          chosen.map(({ token }) => this.#names.id(token)),
          worker,
          ...rest,
        ])
        return rows.flatMap((row) => Object.values(row).map((id) => this.#names.known(id)))
      },
    )
  }

  #describeClaimed(kind: Kind, worker: number, row: ClaimRow): string {
    const name = this.#nameOf(kind, row)
    const token = this.#names.of('token', row.lease_token)
    this.#claims.add(worker, { name, token })
    return `${name} ${this.#short(row.topic)} ${token} attempt ${row.attempt_count}`
  }

  #nameOf(kind: Kind, row: ClaimRow): string {
    return this.#names.known(row[NAMES[kind].id])
  }

  /** Returns the revision of the job, or a wrong revision if `stale`. */
  #revision(job: number, stale: boolean): number {
    const revision = this.#model.job(`j${job}`)?.revision ?? 1
    return stale ? revision + 1 : revision
  }

  async #move(pick: number, suits: (work: Work) => boolean, change: (work: Work) => void): Promise<string[]> {
    const among = this.#model.works.filter(suits)
    const work = among[pick % Math.max(1, among.length)]
    if (work === undefined) return NOTHING_DONE
    change(work)
    return this.#tables.write([work], [])
  }

  #full(name: string): string {
    return `${name}${this.#suffix}`
  }

  #short(name: string): string {
    return name.slice(0, -this.#suffix.length)
  }
}

interface ClaimRow {
  readonly timer_id: string
  readonly run_id: string
  readonly topic: string
  readonly lease_token: string
  readonly attempt_count: number
  readonly outbox_id: string | null
}

/** Returns the first column of the only row. */
async function scalar<T>(role: Queryable, functionName: string, values: readonly unknown[]): Promise<T> {
  const [row] = await call<Record<string, T>>(role, functionName, values)
  return Object.values(row!)[0]!
}
