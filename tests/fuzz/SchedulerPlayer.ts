import { callFunction, type Queryable } from '../../libs/db/index.js'
import type { TestDatabase } from '../support/database.js'
import { compareAnswers, fieldDifferences, NOTHING_DONE, refuseDifferences } from './answers.js'
import { Beliefs, type BeliefPick } from './Beliefs.js'
import { Names } from './Names.js'
import { PreparedConnection } from './PreparedConnection.js'
import { ATTEMPTS_MAX, SchedulerModel, type ClaimShown, type Job, type Kind, type Work } from './schedulerModel.js'
import type { OccurrenceStep, RetryStep, SchedulerStep } from './schedulerSteps.js'
import { at, JUMP, timeDifference, Timeline, toMilliseconds, type Time } from './Timeline.js'

interface Hands {
  readonly ingest: Queryable
  readonly executor: Queryable
  readonly control: Queryable
  readonly superuser: Queryable
}

/** Two, so that one often claims anew what it lost before. */
const WORKERS = 2
const LEASE_SECONDS = 1800
const RETENTION_SECONDS = 3600
const ERROR = 'went wrong'
/** Before the first step, so that it finds something to do. */
const PRELUDE: readonly SchedulerStep[] = [
  { do: 'schedule', topic: 0, delivery: 'claim', future: false },
  { do: 'schedule', topic: 1, delivery: 'outbox', future: false },
  { do: 'define', job: 0, cron: 0, topic: 0, delivery: 'claim', future: false },
  { do: 'createRuns', job: 0, stale: false, occurrences: ['past', 'past'] },
]
/** Timers and runs have the same functions under two names. */
const NAMES = {
  timer: { id: 'timer_id', plural: 'timers', table: 'scheduler_timers' },
  run: { id: 'run_id', plural: 'job_runs', table: 'scheduler_job_runs' },
} as const

/** Plays sequences of steps on the scheduler and on its model, each sequence with jobs and topics of its own. */
export class SchedulerPlayer {
  readonly #hands: Hands
  #sequences = 0

  private constructor(hands: Hands) {
    this.#hands = hands
  }

  /** @param db nobody else's: the scheduler and the queue of the outbox are emptied after each sequence */
  static async open(db: TestDatabase): Promise<SchedulerPlayer> {
    const as = async (role?: string): Promise<Queryable> => PreparedConnection.open(await db.connect(role), db.schema)
    return new SchedulerPlayer({
      ingest: await as('symphony_ingest'),
      executor: await as('symphony_executor'),
      control: await as('symphony_control'),
      superuser: await as(),
    })
  }

  readonly play = async (steps: readonly SchedulerStep[]): Promise<void> => {
    try {
      await new Sequence(this.#hands, ++this.#sequences).play(steps)
    } finally {
      for (const table of ['scheduler_timers', 'scheduler_job_runs', 'scheduler_jobs', 'payment_outbox_pending'])
        await this.#hands.superuser.query(`DELETE FROM ${table}`)
    }
  }
}

interface WorkRow {
  readonly id: string
  readonly job: string | null
  readonly topic: string
  readonly delivery: string
  readonly state: string
  readonly attempt_count: number
  readonly error_message: string | null
  readonly claimed_by: string | null
  readonly lease_token: string | null
  readonly messages: number
  readonly occurrence: number | null
  readonly due: number
  readonly started: number | null
  readonly expires: number | null
  readonly finished: number | null
}

interface JobRow {
  readonly job_name: string
  readonly cron: string
  readonly topic: string
  readonly delivery: string
  readonly state: string
  readonly revision: number
  readonly due: number
}

class Sequence {
  readonly #hands: Hands
  readonly #suffix: string
  readonly #model = new SchedulerModel()
  readonly #names = new Names<Kind | 'token'>()
  readonly #timeline = new Timeline()
  readonly #claims = new Beliefs<ClaimShown>(WORKERS)

  constructor(hands: Hands, number: number) {
    this.#hands = hands
    this.#suffix = `-${number}`
  }

  async play(steps: readonly SchedulerStep[]): Promise<void> {
    await this.#timeline.begin(this.#hands.superuser)
    for (const [index, step] of [...PRELUDE, ...steps].entries()) {
      const differences = await this.#step(step)
      if (differences !== NOTHING_DONE)
        refuseDifferences(`step ${index + 1 - PRELUDE.length}, ${step.do}`, [
          ...differences,
          ...(await this.#compare()),
        ])
    }
  }

  async #step(step: SchedulerStep): Promise<string[]> {
    const { ingest, executor, control } = this.#hands
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
            const rows = await callFunction<ClaimRow>(executor, `claim_${NAMES[step.kind].plural}`, values)
            return rows.map((row) => this.#tellClaimed(step.kind, step.worker, row))
          },
        )
      }
      case 'enqueueDue':
        return compareAnswers(
          () => model.enqueueDue(step.kind, step.batch),
          async () => {
            const rows = await callFunction<ClaimRow>(executor, `enqueue_due_${NAMES[step.kind].plural}`, [step.batch])
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
            const [row] = await callFunction<{ next_due_at: Date; state: string; created: boolean }>(
              control,
              'create_or_update_job',
              [...values, 'once', delivery],
            )
            const known = model.job(name)!
            // A Date has milliseconds; the rest is compared with the table.
            const told = Math.floor(this.#timeline.fromDate(row!.next_due_at) / 1_000)
            const next = told === Math.floor(at(known.due) / 1_000) ? at(known.due) : told
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
            const [row] = await callFunction<{ run_id: string }>(control, 'trigger_job', [this.#full(`j${step.job}`)])
            return this.#names.of('run', row!.run_id)
          },
        )
      case 'deleteJob':
        return compareAnswers(
          () => model.delete(`j${step.job}`),
          async () => {
            const values = [this.#full(`j${step.job}`)]
            const [row] = await callFunction<{ deleted: boolean; runs_removed: number }>(control, 'delete_job', values)
            return `${row!.deleted} ${row!.runs_removed}`
          },
        )
      case 'dueJobs':
        return compareAnswers(
          () => model.dueJobs(step.batch),
          async () => {
            const rows = await callFunction<{ job_name: string; revision: bigint }>(executor, 'due_jobs', [step.batch])
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
      case 'wearOut':
        // As if it had been claimed nineteen times, which takes longer than a sequence.
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
        return this.#write([], [job])
      }
      case 'jump': {
        const shift = (time: Time, further = 0): number => at(time) + (step.forward ? -JUMP : JUMP) + further
        for (const work of model.works) {
          work.due = shift(work.due)
          if (work.finished !== null) work.finished = shift(work.finished)
          if (work.claim !== null) work.claim.expires = shift(work.claim.expires)
        }
        for (const job of model.jobs) job.due = shift(job.due)
        return this.#write(model.works, model.jobs)
      }
      case 'crash':
        this.#claims.forget(step.worker)
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
        const rows = await callFunction<{ run_id: string }>(this.#hands.executor, 'create_job_runs', [
          lines.map(() => this.#full(job)),
          lines.map(() => revision),
          lines.map(() => this.#timeline.toDate(due)),
          lines.map((occurrence) => (occurrence === null ? null : this.#timeline.toDate(occurrence))),
        ])
        return rows.map((row) => this.#names.of('run', row.run_id))
      },
    )
  }

  #endClaims(how: 'ack' | 'fail' | 'abandon', kind: Kind, pick: BeliefPick, retry: RetryStep): Promise<string[]> {
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
        const rows = await callFunction<Record<string, string>>(this.#hands.executor, `${how}_${NAMES[kind].plural}`, [
          chosen.map(({ name }) => this.#names.id(name)),
          chosen.map(({ token }) => this.#names.id(token)),
          worker,
          ...rest,
        ])
        return rows.flatMap((row) => Object.values(row).map((id) => this.#names.known(id)))
      },
    )
  }

  #tellClaimed(kind: Kind, worker: number, row: ClaimRow): string {
    const name = this.#nameOf(kind, row)
    const token = this.#names.of('token', row.lease_token)
    this.#claims.add(worker, { name, token })
    return `${name} ${this.#short(row.topic)} ${token} attempt ${row.attempt_count}`
  }

  #nameOf(kind: Kind, row: ClaimRow): string {
    return this.#names.known(row[NAMES[kind].id])
  }

  /** Its revision, or one that it is not at. */
  #revision(job: number, stale: boolean): number {
    const revision = this.#model.job(`j${job}`)?.revision ?? 1
    return stale ? revision + 1 : revision
  }

  async #move(pick: number, suits: (work: Work) => boolean, change: (work: Work) => void): Promise<string[]> {
    const among = this.#model.works.filter(suits)
    const work = among[pick % Math.max(1, among.length)]
    if (work === undefined) return NOTHING_DONE
    change(work)
    return this.#write([work], [])
  }

  #full(name: string): string {
    return `${name}${this.#suffix}`
  }

  #short(name: string): string {
    return name.slice(0, -this.#suffix.length)
  }

  async #compare(): Promise<string[]> {
    const { rows } = await this.#hands.superuser.query<{
      clock: bigint
      works: WorkRow[] | null
      jobs: JobRow[] | null
    }>(READ, [this.#timeline.start])
    const clock = Number(rows[0]!.clock)
    const works = new Map((rows[0]!.works ?? []).map((row) => [this.#names.known(row.id), row]))
    const jobs = new Map((rows[0]!.jobs ?? []).map((row) => [this.#short(row.job_name), row]))
    const model = this.#model
    const differences = [
      ...model.works.flatMap((work) => this.#compareWork(work, works.get(work.name), clock)),
      ...model.jobs.flatMap((job) => this.#compareJob(job, jobs.get(job.name), clock)),
      ...fieldDifferences('the tables', {
        'timers and runs': [model.works.length, works.size],
        jobs: [model.jobs.length, jobs.size],
      }),
    ]
    model.clock = clock
    if (differences.length === 0) await this.#keepFromComingDue()
    return differences
  }

  #compareWork(work: Work, row: WorkRow | undefined, clock: number): string[] {
    const { name, claim, occurrence, due, finished } = work
    if (row === undefined) return [`${name}: not in its table`]
    const known = { call: [this.#model.clock, clock], claim: row.started } as const
    const token = row.lease_token && `${this.#names.known(row.lease_token)} of ${row.claimed_by}`
    const differences = [
      ...fieldDifferences(name, {
        job: [work.job, row.job && this.#short(row.job)],
        topic: [work.topic, this.#short(row.topic)],
        delivery: [work.delivery, row.delivery],
        state: [work.state, row.state],
        attempts: [work.attempts, row.attempt_count],
        error: [work.error, row.error_message],
        claim: [claim && `${claim.token} of ${claim.worker}`, token],
        // One message for what was enqueued, none for anything else.
        'messages in the outbox': [work.state === 'ENQUEUED' ? 1 : 0, row.messages],
        'has finished': [finished !== null, row.finished !== null],
      }),
      ...timeDifference(`${name}: due`, due, row.due, known),
      ...(occurrence === null ? [] : timeDifference(`${name}: occurrence`, occurrence, row.occurrence, known)),
      ...(finished === null ? [] : timeDifference(`${name}: finished`, finished, row.finished, known)),
      ...(claim === null ? [] : timeDifference(`${name}: claimed until`, claim.expires, row.expires, known)),
    ]
    if (differences.length > 0) return differences
    if (claim !== null) claim.expires = row.expires!
    if (typeof due !== 'number' && due.min === 0) work.due = row.due
    work.occurrence = row.occurrence
    work.finished = row.finished
    return []
  }

  #compareJob(job: Job, row: JobRow | undefined, clock: number): string[] {
    if (row === undefined) return [`${job.name}: not in its table`]
    return [
      ...fieldDifferences(job.name, {
        cron: [job.cron, row.cron],
        topic: [job.topic, this.#short(row.topic)],
        delivery: [job.delivery, row.delivery],
        state: [job.state, row.state],
        revision: [job.revision, row.revision],
      }),
      ...timeDifference(`${job.name}: due`, job.due, row.due, { call: [this.#model.clock, clock] }),
    ]
  }

  /** What is to come, by the clock, would come while the sequence is played, or would not; and no two are due at once. */
  async #keepFromComingDue(): Promise<void> {
    const works = this.#model.works.filter(({ due }) => typeof due !== 'number')
    const jobs = this.#model.jobs.filter(({ due }) => typeof due !== 'number')
    for (const waiting of [...works, ...jobs]) waiting.due = this.#timeline.future()
    if (works.length + jobs.length > 0) await this.#write(works, jobs)
  }

  async #write(works: readonly Work[], jobs: readonly Job[]): Promise<string[]> {
    const { superuser } = this.#hands
    const micros = (time: Time | null): number | null => (time === null ? null : this.#timeline.start + at(time))
    for (const kind of ['timer', 'run'] as const) {
      const moved = works.filter((work) => work.kind === kind)
      if (moved.length > 0)
        await superuser.query(writeWorks(kind), [
          moved.map(({ name }) => this.#names.id(name)),
          moved.map(({ due }) => micros(due)),
          moved.map(({ finished }) => micros(finished)),
          moved.map(({ claim }) => micros(claim && claim.expires)),
          moved.map(({ attempts }) => attempts),
        ])
    }
    if (jobs.length > 0)
      await superuser.query(WRITE_JOBS, [jobs.map(({ name }) => this.#full(name)), jobs.map(({ due }) => micros(due))])
    return []
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

/** The first column of the one row that such a function returns. */
async function scalar<T>(role: Queryable, functionName: string, values: readonly unknown[]): Promise<T> {
  const [row] = await callFunction<Record<string, T>>(role, functionName, values)
  return Object.values(row!)[0]!
}

const WORK_COLUMNS = `w.topic, w.delivery, w.state, w.attempt_count, w.error_message, w.claimed_by, w.lease_token,
  epoch_micros(w.due_at) - $1::bigint AS due, epoch_micros(w.started_at) - $1::bigint AS started,
  epoch_micros(w.lease_expires_at) - $1::bigint AS expires, epoch_micros(w.finished_at) - $1::bigint AS finished`

const READ = `
  SELECT epoch_micros(clock_timestamp()) - $1::bigint AS clock,
    (SELECT json_agg(q) FROM (
      SELECT w.timer_id AS id, NULL AS job, NULL::bigint AS occurrence, ${WORK_COLUMNS}, (
        SELECT count(*) FROM payment_outbox_identities i WHERE i.instruction_id = w.timer_id::text) AS messages
      FROM scheduler_timers w
      UNION ALL
      SELECT w.run_id, w.job_name, epoch_micros(w.scheduled_for) - $1::bigint, ${WORK_COLUMNS}, (
        SELECT count(*) FROM payment_outbox_identities i WHERE i.instruction_id = w.run_id::text)
      FROM scheduler_job_runs w) q) AS works,
    (SELECT json_agg(q) FROM (
      SELECT j.job_name, j.cron, j.topic, j.delivery, j.state, j.revision,
        epoch_micros(j.next_due_at) - $1::bigint AS due FROM scheduler_jobs j) q) AS jobs`

function writeWorks(kind: Kind): string {
  const { table, id } = NAMES[kind]
  return `
    UPDATE ${table} w
    SET due_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond',
      finished_at = 'epoch'::timestamptz + moved.finished * interval '1 microsecond',
      lease_expires_at = 'epoch'::timestamptz + moved.expires * interval '1 microsecond',
      attempt_count = moved.attempts
    FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[])
      AS moved(id, due, finished, expires, attempts)
    WHERE w.${id} = moved.id`
}

const WRITE_JOBS = `
  UPDATE scheduler_jobs j SET next_due_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond'
  FROM unnest($1::text[], $2::bigint[]) AS moved(job_name, due) WHERE j.job_name = moved.job_name`
