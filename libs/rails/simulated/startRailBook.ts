import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { AppError } from '../../core/index.js'

export interface RailBookProcess {
  /** For `simulatedRail({ bookUrl })`. */
  readonly url: string
  readonly pid: number
  /** Resolves when the process has ended. Safe twice. */
  readonly stop: () => Promise<void>
}

/** Starts a book in a process of its own. It ends with this one, however that ends. */
export async function startRailBook(options: {
  readonly file: string
  readonly port?: number
}): Promise<RailBookProcess> {
  const program = fileURLToPath(new URL('railBookProcess.js', import.meta.url))
  const child = spawn(process.execPath, [program, JSON.stringify(options)], {
    // A group of its own: Ctrl-C in the terminal must not end the rail before the workers have drained.
    detached: true,
    // The other end of this pipe is closed by the kernel when this process is gone; that is its signal to end.
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  for await (const line of createInterface(child.stdout)) {
    const { url, reason }: { url?: string; reason?: string } = JSON.parse(line)
    if (url === undefined) throw notStarted(reason)
    return {
      url,
      pid: child.pid ?? 0,
      stop: async () => {
        child.stdin.end()
        await ended
      },
    }
  }
  throw notStarted('its process ended without a word')
}

function notStarted(reason = 'no reason was given'): AppError {
  return new AppError('RAIL_BOOK_NOT_STARTED', `the rail book could not be started: ${reason}`)
}
