import { spawn, type ChildProcess } from 'node:child_process'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { run } from '../../libs/cli/program.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { builtPath } from './builtPath.js'

export interface CommandOutput {
  readonly exitCode: number | string
  readonly stdout: string
  readonly stderr: string
}

/** Runs a command in this process, with its own environment and captured output. */
export async function symphony(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  signal: AbortSignal = new AbortController().signal,
  /** Output so far, for a test that waits for a line of a running command. */
  written = { stdout: '', stderr: '' },
): Promise<CommandOutput> {
  const stream = (name: 'stdout' | 'stderr') =>
    new Writable({
      write(chunk, _encoding, done) {
        written[name] += String(chunk)
        done()
      },
    })
  const terminal = new Terminal({ stdout: stream('stdout'), stderr: stream('stderr'), env })
  const exitCode = await run(['node', 'symphony', ...words], { env, terminal, signal })
  return { exitCode, ...written }
}

/** A command in its own process, as users run it. */
export interface Running {
  readonly child: ChildProcess
  readonly ended: Promise<CommandOutput>
  /** Returns stdout so far. */
  readonly stdout: () => string
  readonly stderr: () => string
}

/** Starts a command of this release, or of the one built in `dist`. */
export function spawnSymphony(
  words: readonly string[],
  env: Readonly<Record<string, string>> = {},
  dist = builtPath(''),
): Running {
  const child = spawn(process.execPath, [join(dist, 'libs/cli/childMain.js'), ...words], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const written = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk) => (written.stdout += String(chunk)))
  child.stderr.on('data', (chunk) => (written.stderr += String(chunk)))
  const ended = new Promise<CommandOutput>((resolve) => {
    child.once('close', (code, signal) => resolve({ exitCode: code ?? signal ?? 'lost', ...written }))
  })
  return { child, ended, stdout: () => written.stdout, stderr: () => written.stderr }
}
