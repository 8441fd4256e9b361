import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const interruption = new AbortController()

/** Makes every later `start`, `waitUntil` and command of the drill throw. */
export function interrupt() {
  interruption.abort()
}

export function throwIfInterrupted() {
  interruption.signal.throwIfAborted()
}

/** Long-running programs, each with its own log file. `killAll` ends all of them. */
export class Processes {
  #folder
  #account
  #running = new Map()

  /** `account`: uid and gid for programs that refuse to run as root; undefined if this process is not root. */
  constructor(folder, account) {
    this.#folder = folder
    this.#account = account
  }

  start(name, command, words, { env = process.env, asCurrentUser = false, stdin = 'ignore' } = {}) {
    throwIfInterrupted()
    const log = openSync(this.logOf(name), 'a')
    const child = spawn(command, words, {
      cwd: '/',
      env,
      // Starts a separate process group, so that Ctrl-C reaches only the script, which then stops everything in order.
      detached: true,
      stdio: [stdin, log, log],
      ...(asCurrentUser ? {} : this.#account),
    })
    closeSync(log)
    const process = { name, child, exited: once(child, 'exit') }
    // A later `waitUntil` for the program's answer reports a failed start.
    process.exited.catch(() => {})
    this.#running.set(name, process)
    return process
  }

  logOf(name) {
    return join(this.#folder, `${name}.log`)
  }

  /** Returns the last lines of a program's log, for error messages. */
  lastLogLines(name) {
    return readQuietly(this.logOf(name)).trimEnd().split('\n').slice(-8).join('\n')
  }

  hasLogged(name, text) {
    return readQuietly(this.logOf(name)).includes(text)
  }

  hasEnded(name) {
    const child = this.#running.get(name)?.child
    return child === undefined || child.exitCode !== null || child.signalCode !== null
  }

  /** Kills the whole process group at once, so that no member can clean up. */
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

/** Sends a signal. Ignores a process that has already ended. */
export function send(pid, signal) {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

/** Returns the child processes of a process, each with its command line. */
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

/** Error that ends `waitUntil` at once. */
export class FinalError extends Error {}

/**
 * Calls `read` until it returns neither undefined nor false, and returns that value. Retries after errors, except
 * `FinalError`.
 */
export async function waitUntil(what, read, { timeoutMs = 120_000, everyMs = 200 } = {}) {
  const deadline = performance.now() + timeoutMs
  let last
  while (performance.now() < deadline) {
    throwIfInterrupted()
    try {
      const seen = await read()
      if (seen !== undefined && seen !== false) return seen
    } catch (error) {
      if (error instanceof FinalError) throw error
      last = error
    }
    await sleep(everyMs)
  }
  throw new Error(
    `timed out after ${timeoutMs / 1_000} s, expected: ${what}${last === undefined ? '' : ` (${last.message})`}`,
  )
}
