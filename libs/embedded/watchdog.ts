import { type ChildProcess, spawn } from 'node:child_process'
import type { Account } from './account.js'
import { CLEAN_ENVIRONMENT } from './runProgram.js'

/**
 * `read` returns when the other end of the pipe is closed, which the kernel does however this process ends. Then: the
 * fast stop, half a minute for its checkpoint, and after that the immediate one.
 */
const SCRIPT = `
trap '' HUP INT TERM
read -r _
kill -INT "$1" 2>/dev/null || exit 0
for _ in $(seq 300); do
  kill -0 "$1" 2>/dev/null || exit 0
  sleep 0.1
done
kill -QUIT "$1" 2>/dev/null
`

/** Stops the server when this process is gone. Synchronous, so that no death falls between the server's birth and this. */
export function watchOver(serverPid: number, account: Account | undefined): { dismiss(): void } {
  const watchdog: ChildProcess = spawn('/bin/sh', ['-c', SCRIPT, 'symphony-watchdog', String(serverPid)], {
    ...account,
    cwd: '/',
    env: CLEAN_ENVIRONMENT,
    // A session of its own: Ctrl-C in the terminal must not reach it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Without a watchdog the server still runs and stops as asked; only an unforeseen death would leave it behind, and
  // then the next start adopts it.
  watchdog.on('error', () => {})
  watchdog.unref()
  return { dismiss: () => void watchdog.kill('SIGKILL') }
}
