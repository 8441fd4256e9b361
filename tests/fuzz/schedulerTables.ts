import type { Queryable } from '../../libs/db/index.js'
import { fieldDifferences } from './answers.js'
import type { Names } from './Names.js'
import type { Job, Kind, SchedulerModel, Work } from './schedulerModel.js'
import { at, timeDifference, type Time, type Timeline } from './Timeline.js'

/** Compares timers, runs and jobs in the database with the model after every step. */
export class SchedulerTables {
  readonly #superuser: Queryable
  readonly #timeline: Timeline
  readonly #model: SchedulerModel
  readonly #names: Names<Kind | 'token'>
  readonly #suffix: string

  constructor(
    superuser: Queryable,
    timeline: Timeline,
    model: SchedulerModel,
    names: Names<Kind | 'token'>,
    suffix: string,
  ) {
    this.#superuser = superuser
    this.#timeline = timeline
    this.#model = model
    this.#names = names
    this.#suffix = suffix
  }

  /**
   * Returns differences between tables and model. If there are none, makes each time in the model exact and equal to
   * the stored one.
   */
  async compare(): Promise<string[]> {
    const { rows } = await this.#superuser.query<{
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
    if (differences.length === 0) await this.#postpone()
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
        // An enqueued timer or run has one message, any other has none.
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
    const known = { call: [this.#model.clock, clock] } as const
    return [
      ...fieldDifferences(job.name, {
        cron: [job.cron, row.cron],
        topic: [job.topic, this.#short(row.topic)],
        delivery: [job.delivery, row.delivery],
        state: [job.state, row.state],
        revision: [job.revision, row.revision],
        'is put off': [job.postponedUntil !== null, row.postponed !== null],
      }),
      ...timeDifference(`${job.name}: due`, job.due, row.due, known),
      ...(job.postponedUntil === null
        ? []
        : timeDifference(`${job.name}: put off until`, job.postponedUntil, row.postponed, known)),
    ]
  }

  /** Moves times that PostgreSQL computed into the far future, each to its own time, so that none comes due. */
  async #postpone(): Promise<void> {
    const works = this.#model.works.filter(({ due }) => typeof due !== 'number')
    const jobs = this.#model.jobs.filter(
      ({ postponedUntil }) => postponedUntil !== null && typeof postponedUntil !== 'number',
    )
    for (const work of works) work.due = this.#timeline.future()
    for (const job of jobs) job.postponedUntil = this.#timeline.future()
    if (works.length + jobs.length > 0) await this.write(works, jobs)
  }

  /** Writes times and attempt counts from the model into the database. */
  async write(works: readonly Work[], jobs: readonly Job[]): Promise<string[]> {
    const micros = (time: Time | null): number | null => (time === null ? null : this.#timeline.start + at(time))
    if (works.length > 0)
      await this.#superuser.query(WRITE_WORKS, [
        works.map(({ name }) => this.#names.id(name)),
        works.map(({ due }) => micros(due)),
        works.map(({ finished }) => micros(finished)),
        works.map(({ claim }) => micros(claim && claim.expires)),
        works.map(({ attempts }) => attempts),
      ])
    if (jobs.length > 0)
      await this.#superuser.query(WRITE_JOBS, [
        jobs.map(({ name }) => `${name}${this.#suffix}`),
        jobs.map(({ due }) => micros(due)),
        jobs.map(({ postponedUntil }) => micros(postponedUntil)),
      ])
    return []
  }

  #short(name: string): string {
    return name.slice(0, -this.#suffix.length)
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
  readonly postponed: number | null
}

const WORK_COLUMNS = `w.topic, w.delivery, w.state, w.attempt_count, w.error_message, w.claimed_by, w.lease_token,
  epoch_micros(w.due_at) - $1::bigint AS due, epoch_micros(w.started_at) - $1::bigint AS started,
  epoch_micros(w.lease_expires_at) - $1::bigint AS expires, epoch_micros(w.finished_at) - $1::bigint AS finished`

const READ = `
  SELECT epoch_micros(clock_timestamp()) - $1::bigint AS clock,
    (SELECT json_agg(q) FROM (
      SELECT w.task_id AS id, w.job_name AS job, epoch_micros(w.scheduled_for) - $1::bigint AS occurrence, ${WORK_COLUMNS}, (
        SELECT count(*) FROM payment_outbox_identities i WHERE i.instruction_id = w.task_id::text) AS messages
      FROM scheduler_tasks w) q) AS works,
    (SELECT json_agg(q) FROM (
      SELECT j.job_name, j.cron, j.topic, j.delivery, j.state, j.revision,
        epoch_micros(j.next_due_at) - $1::bigint AS due, epoch_micros(j.postponed_until) - $1::bigint AS postponed
      FROM scheduler_jobs j) q) AS jobs`

const WRITE_WORKS = `
  UPDATE scheduler_tasks w
  SET due_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond',
    finished_at = 'epoch'::timestamptz + moved.finished * interval '1 microsecond',
    lease_expires_at = 'epoch'::timestamptz + moved.expires * interval '1 microsecond',
    attempt_count = moved.attempts
  FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::integer[])
    AS moved(id, due, finished, expires, attempts)
  WHERE w.task_id = moved.id`

const WRITE_JOBS = `
  UPDATE scheduler_jobs j
  SET next_due_at = 'epoch'::timestamptz + moved.due * interval '1 microsecond',
    postponed_until = 'epoch'::timestamptz + moved.postponed * interval '1 microsecond'
  FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS moved(job_name, due, postponed) WHERE j.job_name = moved.job_name`
