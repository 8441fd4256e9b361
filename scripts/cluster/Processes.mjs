import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const interruption = new AbortController()

/** From now on nothing is begun and nothing is waited for any more. */
export function interrupt() {
  interruption.abort()
}

export function throwIfInterrupted() {
  interruption.signal.throwIfAborted()
}

/** Programs that run until they are told otherwise, each with a log of its own; none of them outlives `killAll`. */
export class Processes {
  #folder
  #account
  #running = new Map()

  /** `account`: whom root lends to what refuses to run as root. */
  constructor(folder, account) {
    this.#folder = folder
    this.#account = account
  }

  start(name, command, words, { env = process.env, asOneself = false, stdin = 'ignore' } = {}) {
    throwIfInterrupted()
    const log = openSync(this.logOf(name), 'a')
    const child = spawn(command, words, {
      cwd: '/',
      env,
      // A group of its own: Ctrl-C is for the script, which then ends everything in its order.
      detached: true,
      stdio: [stdin, log, log],
      ...(asOneself ? {} : this.#account),
    })
    closeSync(log)
    const process = { name, child, exited: once(child, 'exit') }
    // A program that cannot be started is told by whoever waits for it to answer.
    process.exited.catch(() => {})
    this.#running.set(name, process)
    return process
  }

  logOf(name) {
    return join(this.#folder, `${name}.log`)
  }

  /** The last words of a program, for whoever has to find out why it did not do as it should. */
  lastWords(name) {
    return readQuietly(this.logOf(name)).trimEnd().split('\n').slice(-8).join('\n')
  }

  says(name, text) {
    return readQuietly(this.logOf(name)).includes(text)
  }

  hasEnded(name) {
    const child = this.#running.get(name)?.child
    return child === undefined || child.exitCode !== null || child.signalCode !== null
  }

  /** The whole group at once, before any of it could tidy up. */
  async kill(name) {
    const process = this.#running.get(name)
    if (process === undefined || this.hasEnded(name)) return
    send(-process.child.pid, 'SIGKILL')
    await process.exited
  }

  async killAll() {
    await Promise.all([...this.#running.keys()].map((name) => this.kill(name).catch(() => {})))
  }
}

/** A signal to whom may be gone already. */
export function send(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

/** The processes whose parent this is, each with its title. */
export function childrenOf(pid) {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), stat: readQuietly(`/proc/${name}/stat`) }))
    .filter(({ stat }) => Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === pid)
    .map((child) => ({ pid: child.pid, title: readQuietly(`/proc/${child.pid}/cmdline`).replaceAll('\0', ' ').trim() }))
}

function readQuietly(path) {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** What no patience will mend. */
export class FinalError extends Error {}

/** Looks until what it sees is there, and returns it. */
export async function waitUntil(what, look, { timeoutMs = 120_000, everyMs = 200 } = {}) {
  const deadline = performance.now() + timeoutMs
  let last
  while (performance.now() < deadline) {
    throwIfInterrupted()
    try {
      const seen = await look()
      if (seen !== undefined && seen !== false) return seen
    } catch (error) {
      if (error instanceof FinalError) throw error
      last = error
    }
    await sleep(everyMs)
  }
  throw new Error(
    `${timeoutMs / 1_000} s passed, and still not: ${what}${last === undefined ? '' : ` (${last.message})`}`,
  )
}
