import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { throwIfInterrupted } from './Processes.mjs'

/** Entry point of the command line, without the build check of `bin/symphony`. */
export const SYMPHONY = fileURLToPath(new URL('../../dist/libs/cli/childMain.js', import.meta.url))

const TERMINATED = 143

const underWay = new Set()

/** Kills all running commands of an interrupted or failed drill. */
export function killCommands() {
  for (const child of underWay) child.kill('SIGKILL')
}

/**
 * Runs a command to its end. Passes the URL in `DATABASE_URL`, because the process list would show a password in an
 * argument. Sends SIGTERM when stdout contains `stopWhen`, and reports the resulting exit code 143 as 0.
 */
export async function symphony(words, url, { stopWhen } = {}) {
  throwIfInterrupted()
  const child = spawn(process.execPath, [SYMPHONY, ...words], {
    env: { PATH: process.env.PATH, DATABASE_URL: url },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  underWay.add(child)
  let [stdout, stderr, stopped] = ['', '', false]
  child.stdout.on('data', (chunk) => {
    stdout += chunk
    if (stopWhen === undefined || stopped || !stdout.includes(stopWhen)) return
    stopped = true
    child.kill('SIGTERM')
  })
  child.stderr.on('data', (chunk) => (stderr += chunk))
  await once(child, 'close')
  underWay.delete(child)
  throwIfInterrupted()
  return { exitCode: stopped && child.exitCode === TERMINATED ? 0 : child.exitCode, stdout, stderr }
}

/** Runs a command with `--json` and returns the parsed output. Throws if the command fails. */
export async function symphonyJson(words, url) {
  const { exitCode, stdout, stderr } = await symphony([...words, '--json'], url)
  if (exitCode !== 0) throw new Error(`symphony ${words.join(' ')} ended with ${exitCode}: ${stderr.trim()}`)
  return JSON.parse(stdout)
}
