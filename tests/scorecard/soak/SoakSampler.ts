import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { RelayScenario } from '../RelayScenario.js'
import type { Gauge, Point } from './flatness.js'
import { PROCESS_KINDS, type SoakFleets } from './SoakFleets.js'

const MIB = 1_048_576
const KIB = 1_024
/** Age of a restarted process at which its memory is compared. */
const COMPARED_AGE_SECONDS = { from: 60, to: 180 }
/** The tables are measured at every sixth sample only, because counting their rows is slow. */
const SAMPLES_PER_TABLE_SAMPLE = 6

const PENDING = 'payment_outbox_pending'

/** Tables that are updated and keep about the same number of rows. */
const STEADY_TABLES = [
  PENDING,
  'outbox_attempt_tallies',
  'outbox_workers',
  'outbox_rails',
  'outbox_queue_counts',
  'dispatch_epochs',
  'ledger_projection',
  'ledger_verification_passes',
  'scheduler_jobs',
  'symphony_leases',
]

/** Tables that are updated and grow: their size per row is compared. */
const GROWING_TABLES = ['participant_outbox_sequences', 'inbox_messages', 'scheduler_tasks', 'payment_search']

const MEMORY = { factor: 1.1, slack: 10 }
const CONNECTIONS = { factor: 1.1, slack: 0 }
/** The slack of 1 MiB is for tables of a few pages. */
const STEADY_TABLE = { factor: 1.5, slack: 1_024 }
const BYTES_PER_ROW = { factor: 1.5, slack: 0 }
const LATENCY = { factor: 1.5, slack: 20 }
const NOT_COMPARED = { factor: Infinity, slack: 0 }

type Limit = Pick<Gauge, 'factor' | 'slack'>

interface SoakGauge extends Gauge {
  readonly points: Point[]
  /** Whether the scenario reports the gauge as a result. Other gauges are only compared with their limit. */
  readonly isResult: boolean
}

/** Interval in seconds since the load began. */
export interface Interval {
  readonly from: number
  readonly to: number
}

/** Measures memory, connections, table sizes and latency of a running soak. */
export class SoakSampler {
  readonly #scenario: RelayScenario
  readonly #fleets: SoakFleets
  readonly #gauges = new Map<string, SoakGauge>()
  samples = 0

  constructor(scenario: RelayScenario, fleets: SoakFleets) {
    this.#scenario = scenario
    this.#fleets = fleets
    // Opens these gauges before the first sample, so that a gauge without any measurement counts as a defect.
    for (const kind of PROCESS_KINDS) for (const name of [`${kind}Mib`, `${kind}RestartedMib`]) this.#open(name, MEMORY)
    this.#open('serverMib', MEMORY)
  }

  get gauges(): readonly SoakGauge[] {
    return [...this.#gauges.values()]
  }

  /** Takes a sample at `at` seconds. Rejects while the server is down. */
  async sample(at: number): Promise<void> {
    for (const { kind, isLasting, pid, ageSeconds } of this.#fleets.running) {
      const isCompared = ageSeconds >= COMPARED_AGE_SECONDS.from && ageSeconds < COMPARED_AGE_SECONDS.to
      if (!isLasting && !isCompared) continue
      const bytes = await readProc(pid, 'status', /^VmRSS:\s+(\d+) kB/gm)
      if (bytes > 0) this.#add(`${kind}${isLasting ? '' : 'Restarted'}Mib`, MEMORY, { at, value: bytes / MIB })
    }
    await this.#sampleServer(at)
    if (this.samples % SAMPLES_PER_TABLE_SAMPLE === 0) await this.#sampleTables(at)
    this.samples += 1
  }

  /**
   * Reads the latency of payments that the rail answers at once: p50 and p99 of the payments that were enqueued in each
   * window of `windowSeconds`.
   */
  async readLatency(startedAt: Date, windowSeconds: number, excluded: readonly Interval[]): Promise<void> {
    const { rows } = await this.#scenario.db.queryNoRole<{ at: number; p50: number; p99: number }>(
      `SELECT (floor(l.at / $2) * $2)::float8 AS at, percentile_cont(0.5) WITHIN GROUP (ORDER BY l.ms) AS p50,
         percentile_cont(0.99) WITHIN GROUP (ORDER BY l.ms) AS p99
       FROM (SELECT extract(epoch FROM i.created_at - $1::timestamptz)::float8 AS at,
           (extract(epoch FROM a.completed_at - i.created_at) * 1000)::float8 AS ms
         FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id)
         WHERE a.state = 'DISPATCHED' AND NOT i.is_message AND NOT a.payload ? 'simulate') l
       GROUP BY 1 ORDER BY 1`,
      [startedAt.toISOString(), windowSeconds],
    )
    for (const { at, p50, p99 } of rows) {
      if (excluded.some(({ from, to }) => at < to && at + windowSeconds > from)) continue
      this.#add('p50Ms', LATENCY, { at, value: p50 })
      this.#add('p99Ms', LATENCY, { at, value: p99 })
    }
  }

  async #sampleServer(at: number): Promise<void> {
    const { db, server } = this.#scenario
    const { rows } = await db.queryNoRole<{ pid: number; is_ours: boolean }>(
      // Marks the connections of the processes, not those of the scenario itself.
      `SELECT pid, coalesce(usename ~ '^(worker|scheduler|api|inbox)_' AND datname = current_database(), false) AS is_ours
       FROM pg_stat_activity`,
    )
    const postmaster = Number.parseInt(await readFile(join(server.dataDir, 'postgres/data/postmaster.pid'), 'utf8'), 10)
    const bytes = await Promise.all(
      [postmaster, ...rows.map(({ pid }) => pid)].map((pid) =>
        readProc(pid, 'smaps_rollup', /^Private_(?:Clean|Dirty):\s+(\d+) kB/gm),
      ),
    )
    const total = bytes.reduce((sum, one) => sum + one, 0)
    if (total > 0) this.#add('serverMib', MEMORY, { at, value: total / MIB })
    this.#add('connections', CONNECTIONS, { at, value: rows.filter((row) => row.is_ours).length })
  }

  async #sampleTables(at: number): Promise<void> {
    const { db } = this.#scenario
    const { rows } = await db.queryNoRole<{ name: string; bytes: string; dead: string }>(
      `SELECT c.relname AS name, pg_total_relation_size(c.oid)::text AS bytes,
         coalesce(pg_stat_get_dead_tuples(c.oid), 0)::text AS dead
       FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relname = ANY ($2::text[])`,
      [`"${db.schema}"`, [...STEADY_TABLES, ...GROWING_TABLES]],
    )
    for (const { name, bytes, dead } of rows) {
      if (STEADY_TABLES.includes(name)) {
        const gauge = name === PENDING ? 'pendingKib' : `${name} (KiB)`
        this.#add(gauge, STEADY_TABLE, { at, value: Number(bytes) / KIB })
      } else {
        const counted = await db.queryNoRole<{ rows: number }>(`SELECT count(*)::float8 AS rows FROM ${name}`)
        const count = Math.max(1, counted.rows[0]?.rows ?? 0)
        this.#add(`${name} (bytes per row)`, BYTES_PER_ROW, { at, value: Number(bytes) / count })
      }
      if (name === PENDING) this.#add('pendingDeadRows', NOT_COMPARED, { at, value: Number(dead) })
    }
  }

  #add(name: string, limit: Limit, point: Point): void {
    this.#open(name, limit).push(point)
  }

  #open(name: string, limit: Limit): Point[] {
    const existing = this.#gauges.get(name)
    if (existing !== undefined) return existing.points
    // Results have names in camel case. Gauges of tables have names with underscores and are no results.
    const gauge = { name, points: [], ...limit, isResult: /^[a-zA-Z\d]+$/.test(name) }
    this.#gauges.set(name, gauge)
    return gauge.points
  }
}

/** Returns the sum of the matched kilobytes in bytes; 0 if the process has ended or the system has no such file. */
async function readProc(pid: number, file: string, pattern: RegExp): Promise<number> {
  const text = await readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')
  return [...text.matchAll(pattern)].reduce((sum, [, kilobytes]) => sum + Number(kilobytes) * KIB, 0)
}
