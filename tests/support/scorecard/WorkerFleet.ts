import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { builtPath } from '../builtPath.js'
import { waitUntil } from './waitUntil.js'

export interface WorkerFleetOptions {
  /** The name of each worker begins with it. */
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  /** Further words of the command line. */
  readonly words: readonly string[]
  /** Where the workers' own words are kept. */
  readonly logFile: string
  /** Of another release. @default this one's */
  readonly dist?: string | undefined
}

export interface FleetWorker {
  readonly workerId: string
  readonly child: ChildProcess
}

/** Real `symphony worker` processes, and somebody who kills and freezes them. */
export class WorkerFleet {
  readonly #options: WorkerFleetOptions
  readonly #workers = new Map<string, FleetWorker>()
  readonly #atWork = new Set<FleetWorker>()
  readonly #frozen = new Set<FleetWorker>()
  #started = 0
  /** Those that ended at work although nobody had killed or stopped them. */
  readonly deaths: string[] = []
  /** Those that never came that far: a server that is down refuses them, and whoever supervises workers starts others. */
  readonly failedStarts: string[] = []
  kills = 0
  freezes = 0

  constructor(options: WorkerFleetOptions) {
    this.#options = options
  }

  get name(): string {
    return this.#options.name
  }

  /** However it came about. */
  get lost(): number {
    return this.deaths.length + this.failedStarts.length + this.kills
  }

  get size(): number {
    return this.#workers.size
  }

  /** Those that have said that they are at work, and that nobody has frozen. */
  get atWork(): readonly FleetWorker[] {
    return [...this.#atWork].filter((worker) => !this.#frozen.has(worker))
  }

  /** One more; not waited for. */
  add(): FleetWorker {
    const { name, env, words, logFile, dist = builtPath('') } = this.#options
    const workerId = `${name}-${(this.#started += 1)}`
    const log = openSync(logFile, 'a')
    const program = [join(dist, 'libs/cli/childMain.js'), 'worker', '--no-http', '--until-stdin-closes']
    const child = spawn(process.execPath, [...program, '--worker-id', workerId, '--log-level', 'warn', ...words], {
      env,
      // The kernel closes their end of this pipe when this process is gone, however it ended: they end with it.
      stdio: ['pipe', 'pipe', log],
    })
    closeSync(log)
    const worker = { workerId, child }
    this.#workers.set(workerId, worker)
    child.stdout?.once('data', () => {
      if (this.#workers.has(workerId)) this.#atWork.add(worker)
    })
    child.once('exit', (code, signal) => {
      const list = this.#atWork.has(worker) ? this.deaths : this.failedStarts
      if (this.#forget(worker)) list.push(`${workerId} ended by itself (${code ?? signal})`)
    })
    return worker
  }

  async start(count: number): Promise<void> {
    for (let number = 0; number < count; number += 1) this.add()
    await this.untilAtWork(count)
  }

  /** Replaces whoever ended, up to this many. */
  topUp(count: number): void {
    while (this.size < count) this.add()
  }

  async untilAtWork(count: number): Promise<void> {
    await waitUntil(`${count} workers at work`, () => {
      if (this.size < count) throw new Error([...this.deaths, ...this.failedStarts, this.#lastWords()].join('; '))
      return this.atWork.length >= count
    })
  }

  /** The end of what its workers wrote: why the last of them did not start stands there. */
  #lastWords(): string {
    return readFileSync(this.#options.logFile, 'utf8').trim().slice(-500)
  }

  pick(random: Random): FleetWorker {
    const workers = this.atWork
    const chosen = workers[Math.floor(random() * workers.length)]
    if (chosen === undefined) throw new Error('no worker is at work')
    return chosen
  }

  /** `kill -9`: no handler runs, nothing is flushed, nothing is given back. Resolves when it is gone. */
  async kill(worker: FleetWorker): Promise<void> {
    this.#forget(worker)
    const exited = once(worker.child, 'exit')
    worker.child.kill('SIGKILL')
    await exited
    this.kills += 1
  }

  /** SIGSTOP, and SIGCONT after so long: a machine that was paused, and whose worker knows nothing of it. */
  freeze(worker: FleetWorker, ms: number): void {
    this.freezes += 1
    this.#frozen.add(worker)
    worker.child.kill('SIGSTOP')
    void delay(ms).then(() => this.#thaw(worker))
  }

  /** All of them, until they are thawed: what happens meanwhile happens without them. */
  freezeAll(): void {
    for (const worker of this.atWork) {
      this.#frozen.add(worker)
      worker.child.kill('SIGSTOP')
    }
  }

  thawAll(): void {
    for (const worker of this.#frozen) this.#thaw(worker)
  }

  find(workerId: string): FleetWorker | undefined {
    return this.#workers.get(workerId)
  }

  /** The gentle way. Resolves to how each ended: 0 for all who did as they should. */
  async stop(): Promise<(number | string)[]> {
    return Promise.all([...this.#workers.values()].map((worker) => this.stopOne(worker)))
  }

  async stopOne(worker: FleetWorker): Promise<number | string> {
    const { child } = worker
    this.#thaw(worker)
    this.#forget(worker)
    const exited = once(child, 'exit')
    child.stdin?.end()
    await exited
    return child.exitCode ?? child.signalCode ?? 'lost'
  }

  /** For the end of a fixture, whatever became of the scenario. */
  async killAll(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => this.kill(worker)))
  }

  #thaw(worker: FleetWorker): void {
    if (this.#frozen.delete(worker)) worker.child.kill('SIGCONT')
  }

  /** False if it was forgotten before: then its end was our doing. */
  #forget(worker: FleetWorker): boolean {
    this.#atWork.delete(worker)
    return this.#workers.delete(worker.workerId)
  }
}
