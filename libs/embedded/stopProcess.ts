import { Deadline } from './Deadline.js'
import { EmbeddedError, hasCode } from './errors.js'

/** Time for a server that was told to quit at once: PostgreSQL itself kills its children after five seconds. */
const QUIT_TIMEOUT_MS = 10_000

/**
 * SIGINT is the fast stop: it ends sessions, where SIGTERM would wait for them without end. If that takes too long,
 * SIGQUIT: nothing committed is lost, and the next start recovers. `isGone` is asked before every signal, because the
 * pid of a server that ended may be a stranger's.
 */
export async function stopProcess(pid: number, isGone: () => Promise<boolean>, timeoutMs: number): Promise<void> {
  for (const [signal, patienceMs] of [
    ['SIGINT', timeoutMs],
    ['SIGQUIT', QUIT_TIMEOUT_MS],
  ] as const) {
    if (await isGone()) return
    send(signal, pid)
    const gone = await new Deadline(patienceMs).poll(async () => (await isGone()) || undefined)
    if (gone === true) return
  }
  throw new EmbeddedError('EMBEDDED_STOP_TIMEOUT', `The server (pid ${pid}) does not stop.`, {
    remedy: `Look at its log; as a last resort, kill -9 ${pid}: nothing committed is lost, the next start recovers.`,
  })
}

function send(signal: NodeJS.Signals, pid: number): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // It ended between the look and the signal.
    if (!hasCode(error, 'ESRCH')) throw error
  }
}
