import { Interruption } from './Interruption.js'
import { COMMAND_NAMES, run } from './program.js'
import { programName } from './programName.js'
import { Terminal } from './Terminal.js'

/** The process around a command: its streams, its environment, its signals, its exit code. */
export async function main(argv: readonly string[]): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', endQuietlyWhenReaderIsGone)
  const terminal = new Terminal({
    stdout: process.stdout,
    stderr: process.stderr,
    env: process.env,
    program: { name: programName(argv[1]), commands: COMMAND_NAMES },
  })
  const interruption = new Interruption(() => {
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
