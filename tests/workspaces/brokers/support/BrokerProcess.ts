import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'

export interface BrokerProgram {
  readonly command: string
  readonly words: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Text that the program prints when it is ready. */
  readonly readyText: string
}

/** A broker that a test can kill, freeze and restart in the same folder and on the same port. */
export class BrokerProcess {
  readonly #program: BrokerProgram
  #child: ChildProcess | undefined
  #output = ''

  private constructor(program: BrokerProgram) {
    this.#program = program
  }

  static async start(program: BrokerProgram): Promise<BrokerProcess> {
    const broker = new BrokerProcess(program)
    await broker.start()
    return broker
  }

  /** Resolves when the broker prints its ready text. Rejects with its output if it exits first. */
  async start(): Promise<void> {
    const { command, words, env, readyText } = this.#program
    // Starts a process group, because some servers are a shell with child processes.
    const child = spawn(command, words, {
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { PATH: process.env['PATH'], ...env },
    })
    this.#child = child
    this.#output = ''
    await new Promise<void>((resolve, reject) => {
      const listen = (chunk: unknown) => {
        this.#output += String(chunk)
        if (this.#output.includes(readyText)) resolve()
      }
      child.stdout.on('data', listen)
      child.stderr.on('data', listen)
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`${command} ended before it was ready:\n${this.#output}`)))
    })
  }

  /** Sends SIGKILL to all processes of the broker. Resolves when the broker has exited. */
  async kill(): Promise<void> {
    const child = this.#child
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    this.#signal('SIGKILL')
    await exited
  }

  freeze(): void {
    this.#signal('SIGSTOP')
  }

  resume(): void {
    this.#signal('SIGCONT')
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child?.pid !== undefined) process.kill(-this.#child.pid, signal)
  }
}

/** Returns a port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('the server has no port')
  return address.port
}
