import { AppError } from '../core/index.js'
import { EXIT } from './exitCodes.js'

const EXIT_OF = { SIGINT: EXIT.interrupted, SIGTERM: EXIT.terminated } as const

type StopSignal = keyof typeof EXIT_OF

/** A person or a supervisor asked the command to stop. */
export class InterruptedError extends AppError {
  readonly exitCode: number

  constructor(signal: StopSignal) {
    super('INTERRUPTED', `Stopped by ${signal}.`)
    this.exitCode = EXIT_OF[signal]
  }
}

/**
 * Turns the first SIGINT or SIGTERM into an abort, which lets the command finish what it must, and the second into an
 * end on the spot, for the person who will not wait.
 */
export class Interruption {
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
