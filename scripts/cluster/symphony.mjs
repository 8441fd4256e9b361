import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { throwIfInterrupted } from './Processes.mjs'

/** The command line of Symphony, as `bin/symphony` starts it once the build is fresh. */
export const SYMPHONY = fileURLToPath(new URL('../../dist/libs/cli/childMain.js', import.meta.url))

const TERMINATED = 143

const underWay = new Set()

/** For an end that nobody waited for. */
export function killCommands() {
  for (const child of underWay) child.kill('SIGKILL')
}

/**
 * Runs a command to its end. `DATABASE_URL` comes by the environment, as in life: there nobody sees its password. A command that
 * would run for ever is told to stop when it has said `stopWhen`, and has then done as it should.
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

/** The same for a command that must succeed, and answers in JSON. */
export async function symphonyJson(words, url) {
  const { exitCode, stdout, stderr } = await symphony([...words, '--json'], url)
  if (exitCode !== 0) throw new Error(`symphony ${words.join(' ')} ended with ${exitCode}: ${stderr.trim()}`)
  return JSON.parse(stdout)
}
