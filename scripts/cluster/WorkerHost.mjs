import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitUntil } from './Processes.mjs'
import { SYMPHONY } from './symphony.mjs'

const rails = fileURLToPath(new URL('rails.mjs', import.meta.url))
const STOP_MS = 60_000

/** Worker host: one `symphony worker` process with its own configuration file, port and epoch file. */
export class WorkerHost {
  #processes
  #process

  constructor(processes) {
    this.#processes = processes
  }

  async start({ name, folder, url, bookUrl, settings }) {
    const config = join(folder, `${name}.json`)
    const file = {
      workerId: name,
      rails,
      pooler: 'transaction',
      // Shorter than in production, so that the other host takes over leased items within seconds after the failover.
      leaseSeconds: 10,
      railTimeoutMs: 2_000,
      concurrency: 40,
      batchSize: 100,
      repairIntervalMs: 2_000,
      port: 0,
      epochFile: join(folder, `${name}.epoch`),
      logLevel: 'info',
      ...settings,
    }
    writeFileSync(config, JSON.stringify(file))
    this.#process = this.#processes.start(name, process.execPath, [SYMPHONY, 'worker', '--config', config], {
      env: { PATH: process.env.PATH, DATABASE_URL: url, CLUSTER_BOOK_URL: bookUrl },
      asCurrentUser: true,
    })
    await waitUntil(`${name} is at work`, () => this.hasLogged('worker_started'), { timeoutMs: 30_000 })
  }

  hasLogged(text) {
    return this.#processes.hasLogged(this.#process.name, text)
  }

  get hasEnded() {
    return this.#processes.hasEnded(this.#process.name)
  }

  /** Sends SIGTERM, as a supervisor does. Resolves to the exit code. */
  async stop() {
    this.#process.child.kill('SIGTERM')
    await waitUntil(`${this.#process.name} has stopped`, () => this.hasEnded, { timeoutMs: STOP_MS })
    return this.#process.child.exitCode
  }
}
