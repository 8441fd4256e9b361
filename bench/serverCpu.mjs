// Measures the CPU time of a database's client backends from /proc/PID/schedstat. Linux only.
import { readFile } from 'node:fs/promises'

/**
 * Interval of samples. A pool closes a connection after 10 s without work, so a sample per second misses no work of a
 * closed backend.
 */
const SAMPLE_MS = 1_000
const BACKENDS = `
SELECT pid, pid || ' ' || backend_start AS backend FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND application_name <> 'bench sealing'`

/**
 * Starts measuring. `end()` returns the CPU microseconds since then; undefined without schedstat. `sampleMs` is the
 * interval of samples.
 */
export async function watchServerCpu(url, pg, sampleMs = SAMPLE_MS) {
  const client = new pg.Client({ connectionString: url, application_name: 'bench cpu' })
  await client.connect()
  const before = await readBackends(client)
  const latest = new Map()
  let sampling = Promise.resolve()
  const sample = async () => {
    for (const [backend, cpuUs] of await readBackends(client)) latest.set(backend, cpuUs)
  }
  const timer = setInterval(() => {
    sampling = sampling.then(sample)
    // end() awaits the same promise and throws the error.
    sampling.catch(() => {})
  }, sampleMs)
  return {
    end: async () => {
      clearInterval(timer)
      await sampling.then(sample)
      await client.end()
      if (latest.size === 0) return undefined
      return [...latest].reduce((sum, [backend, cpuUs]) => sum + cpuUs - (before.get(backend) ?? 0), 0)
    },
  }
}

async function readBackends(client) {
  const { rows } = await client.query(BACKENDS)
  const read = await Promise.all(rows.map(async ({ pid, backend }) => [backend, await readCpuUs(pid)]))
  return new Map(read.filter(([, cpuUs]) => cpuUs !== undefined))
}

/**
 * Returns the CPU microseconds of a backend; undefined if the backend has ended, or without schedstat. The first field
 * of schedstat is the CPU time in nanoseconds.
 */
async function readCpuUs(pid) {
  const text = await readFile(`/proc/${pid}/schedstat`, 'utf8').catch(() => undefined)
  return text === undefined ? undefined : Number(text.split(' ')[0]) / 1_000
}
