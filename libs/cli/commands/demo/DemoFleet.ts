import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { SymphonyError } from '../../../core/index.js'
import { settleWithin } from '../../../worker/index.js'
import type { Random } from './seededRandom.js'

interface DemoFleetOptions {
  readonly size: number
  /** Arguments of a worker process, after `node`. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  readonly logFile: string
  readonly random: Random
}

/** Worker processes of a demo. Each killed worker is replaced at once. */
export class DemoFleet {
  readonly #options: DemoFleetOptions
  readonly #workers = new Set<ChildProcess>()
  /** Workers that have printed that they are running. */
  readonly #atWork = new Set<ChildProcess>()
  #kills = 0
  #unexpectedExits = 0
  #stopping = false

  constructor(options: DemoFleetOptions) {
    this.#options = options
  }

  get kills(): number {
    return this.#kills
  }

  start(): void {
    for (let number = 0; number < this.#options.size; number += 1) this.#spawn()
  }

  /**
   * Kills a random worker with SIGKILL: no handler runs and no lease is released. Kills none and returns false while
   * more than one worker is starting. Otherwise, on a slow machine, every worker would be killed before it has started.
   */
  killOne(): boolean {
    const workers = [...this.#atWork]
    if (workers.length < this.#options.size - 1) return false
    const worker = workers[Math.floor(this.#options.random() * workers.length)]
    if (worker === undefined) return false
    this.#remove(worker)
    if (worker.kill('SIGKILL')) this.#kills += 1
    this.#spawn()
    return true
  }

  /**
   * Throws if more than 5 workers exited without being killed, so that a worker that cannot start is not replaced for
   * ever.
   */
  requireHealth(): void {
    if (this.#unexpectedExits <= UNEXPECTED_EXITS_MAX) return
    throw new SymphonyError('DEMO_WORKERS_DIE', `${this.#unexpectedExits} workers exited without being killed.`, {
      remedy: `Read their logs in ${this.#options.logFile}.`,
    })
  }

  /** Stops all workers by SIGTERM, and after 15 s by SIGKILL. */
  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all([...this.#workers].map((worker) => stopWorker(worker)))
  }

  #spawn(): void {
    const { args, env, logFile } = this.#options
    const log = openSync(logFile, 'a')
    const worker = spawn(process.execPath, args, {
      env,
      // The workers get their own process group, so that Ctrl-C reaches only the demo, which stops them. A worker also
      // exits when its standard input closes.
      detached: true,
      stdio: ['pipe', 'pipe', log],
    })
    closeSync(log)
    this.#workers.add(worker)
    worker.stdout?.once('data', () => {
      if (this.#workers.has(worker)) this.#atWork.add(worker)
    })
    worker.once('exit', () => {
      if (!this.#remove(worker) || this.#stopping) return
      this.#unexpectedExits += 1
      if (this.#unexpectedExits <= UNEXPECTED_EXITS_MAX) this.#spawn()
    })
  }

  /** Removes the worker. Returns false if `killOne()` removed it before. */
  #remove(worker: ChildProcess): boolean {
    this.#atWork.delete(worker)
    return this.#workers.delete(worker)
  }
}

async function stopWorker(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return
  const exited = once(worker, 'exit')
  worker.kill('SIGTERM')
  if (!(await settleWithin(exited, STOP_MS))) {
    worker.kill('SIGKILL')
    await exited
  }
}

const UNEXPECTED_EXITS_MAX = 5
const STOP_MS = 15_000
