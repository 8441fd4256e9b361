import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Random } from '../../libs/cli/commands/demo/seededRandom.js'
import { builtPath } from '../support/builtPath.js'
import { waitUntil } from './waitUntil.js'

export interface WorkerFleetOptions {
  /** Prefix of the worker ids. */
  readonly name: string
  readonly env: Readonly<Record<string, string>>
  /** Further arguments of `symphony worker`. */
  readonly words: readonly string[]
  /** File for the output of the workers. */
  readonly logFile: string
  /** Folder of another release. @default this release */
  readonly dist?: string | undefined
  /**
   * Returns the arguments of `node` for another program, which prints a line when it is at work and exits when standard
   * input closes. @default `symphony worker` with `words`
   */
  readonly command?: ((workerId: string) => readonly string[]) | undefined
}

export interface FleetWorker {
  readonly workerId: string
  readonly child: ChildProcess
  /** Start of the process, by `performance.now()`. */
  readonly startedAtMs: number
}

/** Starts, kills and freezes real processes: `symphony worker`, or another program. */
export class WorkerFleet {
  readonly #options: WorkerFleetOptions
  readonly #workers = new Map<string, FleetWorker>()
  readonly #atWork = new Set<FleetWorker>()
  readonly #frozen = new Set<FleetWorker>()
  #started = 0
  /** Workers that exited at work without being killed or stopped. */
  readonly unexpectedExits: string[] = []
  /** Workers that exited before they were at work, for example because the server was down. */
  readonly failedStarts: string[] = []
  kills = 0
  freezes = 0

  constructor(options: WorkerFleetOptions) {
    this.#options = options
  }

  get name(): string {
    return this.#options.name
  }

  /** Number of workers that were killed or exited by themselves. */
  get lost(): number {
    return this.unexpectedExits.length + this.failedStarts.length + this.kills
  }

  get size(): number {
    return this.#workers.size
  }

  /** Workers that printed that they are at work and are not frozen. */
  get atWork(): readonly FleetWorker[] {
    return [...this.#atWork].filter((worker) => !this.#frozen.has(worker))
  }

  /** Starts one more worker without waiting. */
  add(): FleetWorker {
    const { name, env, logFile, command } = this.#options
    const workerId = `${name}-${(this.#started += 1)}`
    const log = openSync(logFile, 'a')
    const child = spawn(process.execPath, command?.(workerId) ?? this.#workerCommand(workerId), {
      env,
      // Workers exit when this pipe closes. The kernel closes it however this process ends.
      stdio: ['pipe', 'pipe', log],
    })
    closeSync(log)
    const worker = { workerId, child, startedAtMs: performance.now() }
    this.#workers.set(workerId, worker)
    child.stdout?.once('data', () => {
      if (this.#workers.has(workerId)) this.#atWork.add(worker)
    })
    child.once('exit', (code, signal) => {
      const list = this.#atWork.has(worker) ? this.unexpectedExits : this.failedStarts
      if (this.#remove(worker)) list.push(`${workerId} exited by itself (${code ?? signal})`)
    })
    return worker
  }

  #workerCommand(workerId: string): readonly string[] {
    const { words, dist = builtPath('') } = this.#options
    const program = [join(dist, 'libs/cli/childMain.js'), 'worker', '--no-http', '--until-stdin-closes']
    return [...program, '--worker-id', workerId, '--log-level', 'warn', ...words]
  }

  async start(count: number): Promise<void> {
    for (let number = 0; number < count; number += 1) this.add()
    await this.untilAtWork(count)
  }

  /** Starts workers up to this number. */
  topUp(count: number): void {
    while (this.size < count) this.add()
  }

  async untilAtWork(count: number): Promise<void> {
    await waitUntil(`${count} workers at work`, () => {
      if (this.size < count)
        throw new Error([...this.unexpectedExits, ...this.failedStarts, this.#lastLogLines()].join('; '))
      return this.atWork.length >= count
    })
  }

  /** Returns the end of the workers' output, which explains a failed start. */
  #lastLogLines(): string {
    return readFileSync(this.#options.logFile, 'utf8').trim().slice(-500)
  }

  pick(random: Random, workers = this.atWork): FleetWorker {
    const chosen = workers[Math.floor(random() * workers.length)]
    if (chosen === undefined) throw new Error('no worker is at work')
    return chosen
  }

  /** Kills a worker with SIGKILL: nothing is flushed or released. Resolves when it has exited. */
  async kill(worker: FleetWorker): Promise<void> {
    this.#remove(worker)
    const exited = once(worker.child, 'exit')
    worker.child.kill('SIGKILL')
    await exited
    this.kills += 1
  }

  /** Freezes a worker with SIGSTOP and continues it after `ms`, like a machine that was paused. */
  freeze(worker: FleetWorker, ms: number): void {
    this.freezes += 1
    this.#frozen.add(worker)
    worker.child.kill('SIGSTOP')
    void delay(ms).then(() => this.#resume(worker))
  }

  /** Freezes all workers until `resumeAll`. */
  freezeAll(): void {
    for (const worker of this.atWork) {
      this.#frozen.add(worker)
      worker.child.kill('SIGSTOP')
    }
  }

  resumeAll(): void {
    for (const worker of this.#frozen) this.#resume(worker)
  }

  find(workerId: string): FleetWorker | undefined {
    return this.#workers.get(workerId)
  }

  /** Stops all workers cleanly. Returns their exit codes, expected to be 0. */
  async stop(): Promise<(number | string)[]> {
    return Promise.all([...this.#workers.values()].map((worker) => this.stopOne(worker)))
  }

  async stopOne(worker: FleetWorker): Promise<number | string> {
    const { child } = worker
    this.#resume(worker)
    this.#remove(worker)
    const exited = once(child, 'exit')
    child.stdin?.end()
    await exited
    return child.exitCode ?? child.signalCode ?? 'lost'
  }

  /** Kills all workers at the end of a fixture. */
  async killAll(): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => this.kill(worker)))
  }

  #resume(worker: FleetWorker): void {
    if (this.#frozen.delete(worker)) worker.child.kill('SIGCONT')
  }

  /** Returns false if the worker was already removed: then its exit was intended. */
  #remove(worker: FleetWorker): boolean {
    this.#atWork.delete(worker)
    return this.#workers.delete(worker.workerId)
  }
}
