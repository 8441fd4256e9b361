import { hasCode } from '../core/index.js'
import { COMMAND_NAMES, run } from './program.js'
import { programName } from './terminal/installation.js'
import { EXIT, EXIT_OF, InterruptedError, type StopSignal } from './terminal/reportError.js'
import { Terminal } from './terminal/Terminal.js'

/** Runs a command in this process: connects its streams, environment and signals, and sets the exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  const terminal = new Terminal({
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    program: { name: programName(argv[1]), commands: COMMAND_NAMES },
  })
  const interruption = new SignalHandler(() => {
    if (terminal.isInteractive) terminal.note('Stopping. Once more to stop at once.')
  })
  let isOutputClosed = false
  let isOutputLost = false
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error) => {
      // A full disk loses lines. It must not end a worker between the call of a rail and its outcome.
      if (DISK_ERRORS.some((code) => hasCode(error, code))) {
        isOutputLost = true
        return
      }
      // Each write after the first fails, too.
      if (!isOutputClosed && !hasCode(error, 'EPIPE')) throw error
      isOutputClosed = true
      interruption.stop('SIGPIPE')
    })
  }
  try {
    const exitCode = await run(argv, { env: process.env, terminal, signal: interruption.signal })
    // Sets exitCode instead of calling process.exit(), which would cut off text still being written to a pipe.
    process.exitCode = exitCode === EXIT.ok ? (isOutputClosed ? EXIT.outputClosed : EXIT.ok) : exitCode
    // The error of the last write arrives after it.
    process.once('exit', () => {
      if (isOutputLost && process.exitCode === EXIT.ok) process.exitCode = EXIT.failed
    })
  } finally {
    interruption.stopListening()
  }
}

/** Errors of a file or disk that is full or broken. */
const DISK_ERRORS = ['ENOSPC', 'EDQUOT', 'EFBIG', 'EIO']

/**
 * Aborts the command on the first SIGINT or SIGTERM, or when its output is closed, so that it can clean up. Exits at
 * once on the second signal.
 */
export class SignalHandler {
  readonly #controller = new AbortController()
  readonly #onFirst: () => void
  readonly #listen = (signal: NodeJS.Signals): void => {
    if (!isStopSignal(signal)) return
    if (this.#controller.signal.aborted) process.exit(EXIT_OF[signal])
    this.stop(signal)
    this.#onFirst()
  }

  constructor(onFirst: () => void) {
    this.#onFirst = onFirst
    process.on('SIGINT', this.#listen)
    process.on('SIGTERM', this.#listen)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Aborts the command, unless it is aborted already. */
  stop(signal: StopSignal): void {
    this.#controller.abort(new InterruptedError(signal))
  }

  stopListening(): void {
    process.off('SIGINT', this.#listen)
    process.off('SIGTERM', this.#listen)
  }
}

function isStopSignal(signal: NodeJS.Signals): signal is StopSignal {
  return signal in EXIT_OF
}
