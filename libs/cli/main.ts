import { COMMAND_NAMES, run } from './program.js'
import { programName } from './terminal/installation.js'
import { EXIT_OF, InterruptedError, type StopSignal } from './terminal/reportError.js'
import { Terminal } from './terminal/Terminal.js'

/** The process around a command: its streams, its environment, its signals, its exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', endQuietlyWhenReaderIsGone)
  const terminal = new Terminal({
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    program: { name: programName(argv[1]), commands: COMMAND_NAMES },
  })
  const interruption = new SignalHandler(() => {
    if (terminal.isInteractive) terminal.note('Stopping. Once more to stop at once.')
  })
  try {
    // Not process.exit: what was written to a pipe would be cut off.
    process.exitCode = await run(argv, { env: process.env, terminal, signal: interruption.signal })
  } finally {
    interruption.stopListening()
  }
}

/** `symphony … | head` closes our stdout; that is the reader's choice and no fault. */
function endQuietlyWhenReaderIsGone(error: Error): void {
  if ('code' in error && error.code === 'EPIPE') process.exit()
  throw error
}

/**
 * Turns the first SIGINT or SIGTERM into an abort, which lets the command finish what it must, and the second into an
 * end on the spot, for the person who will not wait.
 */
export class SignalHandler {
  readonly #controller = new AbortController()
  readonly #onFirst: () => void
  readonly #listen = (signal: NodeJS.Signals): void => {
    if (!isStopSignal(signal)) return
    if (this.#controller.signal.aborted) process.exit(EXIT_OF[signal])
    this.#controller.abort(new InterruptedError(signal))
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

  stopListening(): void {
    process.off('SIGINT', this.#listen)
    process.off('SIGTERM', this.#listen)
  }
}

function isStopSignal(signal: NodeJS.Signals): signal is StopSignal {
  return signal in EXIT_OF
}
