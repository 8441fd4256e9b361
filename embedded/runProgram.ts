import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Account } from './account.js'

/**
 * Environment of every started program, without variables of this process. PGDATA, LD_LIBRARY_PATH or LANG would affect
 * the server, and secrets in other variables would be readable in the environment of the server's processes. LC_ALL=C
 * makes messages English.
 */
export const CLEAN_ENVIRONMENT: Readonly<Record<string, string>> = Object.freeze({
  LC_ALL: 'C',
  PATH: '/usr/bin:/bin:/usr/sbin:/sbin',
})

interface RunOptions {
  readonly account?: Account | undefined
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
}

/**
 * Runs a program to its end, as the account if one is given. Rejects with `stderr` on a non-zero exit. When the promise
 * settles, the program has ended, also after an abort. The `signal` option of execFile does not guarantee this.
 */
export async function runProgram(
  file: string,
  args: readonly string[],
  { account, timeoutMs = 10_000, signal }: RunOptions = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  signal?.throwIfAborted()
  const running = promisify(execFile)(file, args, {
    ...account,
    // The account may not be able to enter the working directory of this process.
    cwd: '/',
    env: CLEAN_ENVIRONMENT,
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  const kill = () => void running.child.kill('SIGKILL')
  signal?.addEventListener('abort', kill, { once: true })
  try {
    return await running
  } finally {
    signal?.removeEventListener('abort', kill)
  }
}
