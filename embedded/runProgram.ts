import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Account } from './account.js'

/**
 * What every program we start gets: nothing of ours. An inherited PGDATA, LD_LIBRARY_PATH or LANG would change what
 * the server does, and an inherited secret would be readable in its process list. Messages come in English.
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
 * Runs a program to its end, as the account if one is given. Rejects with `stderr` on a non-zero exit. When it settles
 * the program is gone, also after an abort; that is why execFile's own `signal`, which does not wait, is not used.
 */
export async function runProgram(
  file: string,
  args: readonly string[],
  { account, timeoutMs = 10_000, signal }: RunOptions = {},
): Promise<{ readonly stdout: string; readonly stderr: string }> {
  signal?.throwIfAborted()
  const running = promisify(execFile)(file, args, {
    ...account,
    // The account may not be able to enter the folder this process is in.
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
