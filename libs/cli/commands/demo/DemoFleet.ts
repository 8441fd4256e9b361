import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { SymphonyError } from '../../../core/index.js'
import { settleWithin } from '../../../worker/index.js'
import type { Random } from './seededRandom.js'

interface DemoFleetOptions {
  readonly size: number
  /** The command line of a worker, after `node`. */
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Where workers write what they log. */
  readonly logFile: string
  readonly random: Random
}

/** Real worker processes, and somebody who kills them. Whoever is killed is replaced at once. */
export class DemoFleet {
  readonly #options: DemoFleetOptions
  readonly #workers = new Set<ChildProcess>()
  /** Those that have said that they are at work. */
  readonly #atWork = new Set<ChildProcess>()
  #kills = 0
  #deaths = 0
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
   * `kill -9`: no handler runs, nothing is flushed, nothing is given back. Only of a worker that is at work, and only while most
   * of them are: to kill those that are still starting would prove nothing, and on a slow machine nothing would ever be done.
   * False if it was not the time.
   */
  killOne(): boolean {
    const workers = [...this.#atWork]
    if (workers.length < this.#options.size - 1) return false
    const victim = workers[Math.floor(this.#options.random() * workers.length)]
    if (victim === undefined) return false
    this.#forget(victim)
    if (victim.kill('SIGKILL')) this.#kills += 1
    this.#spawn()
    return true
  }

  /** A worker that ends by itself is a bug; one that cannot even start would be replaced for ever. */
  requireHealth(): void {
    if (this.#deaths <= DEATHS_MAX) return
    throw new SymphonyError('DEMO_WORKERS_DIE', `${this.#deaths} workers ended although nobody had killed them.`, {
      remedy: `Their last words are in ${this.#options.logFile}.`,
    })
  }

  /** The gentle way; who does not listen is killed. */
  async stop(): Promise<void> {
    this.#stopping = true
    await Promise.all([...this.#workers].map((worker) => stopWorker(worker)))
  }

  #spawn(): void {
    const { args, env, logFile } = this.#options
    const log = openSync(logFile, 'a')
    const worker = spawn(process.execPath, args, {
      env,
      // A group of its own: Ctrl-C is for the demo, which then stops its workers. Its end of the pipe keeps them alive.
      detached: true,
      stdio: ['pipe', 'pipe', log],
    })
    closeSync(log)
    this.#workers.add(worker)
    worker.stdout?.once('data', () => {
      if (this.#workers.has(worker)) this.#atWork.add(worker)
    })
    worker.once('exit', () => {
      if (!this.#forget(worker) || this.#stopping) return
      this.#deaths += 1
      if (this.#deaths <= DEATHS_MAX) this.#spawn()
    })
  }

  /** False if it was forgotten before: then its end was our doing. */
  #forget(worker: ChildProcess): boolean {
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

const DEATHS_MAX = 5
const STOP_MS = 15_000
