import type { Terminal } from './Terminal.js'

/** What a command may know of its process: the only way in for the environment, and out for text. */
export interface Cli {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly terminal: Terminal
  /**
   * Aborted by SIGINT or SIGTERM, with an `InterruptedError` as the reason. A command that runs until told to stop
   * waits for it, cleans up and returns; any other passes it on and lets the reason be thrown.
   */
  readonly signal: AbortSignal
}
