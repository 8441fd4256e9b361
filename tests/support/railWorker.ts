import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { SimulatedRailOptions } from '../../libs/rails/index.js'
import { builtPath } from './builtPath.js'

/** A process that sends payments to a simulated rail and prints each answer at once. */
export interface RailWorker {
  readonly process: ChildProcess
  /** Rail reference of each success so far, by our reference. */
  readonly answered: Map<string, string>
  /** Resolves when every reference has an answer. */
  done(): Promise<void>
  go(): void
  /** Resolves after `count` answers, or when the process exits. */
  untilAnswered(count: number): Promise<void>
  /** Kills the process with SIGKILL. Resolves when all its output is read. */
  kill(): Promise<void>
}

const PROGRAM = `
const { simulatedRail, loadRail, callRail } = await import(process.argv[1])
const { createInterface } = await import('node:readline')
const rail = loadRail(simulatedRail(JSON.parse(process.argv[2])))
console.log('ready')
createInterface(process.stdin).once('line', async (line) => {
  const queue = JSON.parse(line)
  const payload = { amount: '1.00', currency: 'EUR', destination: 'account-1' }
  const notAfter = new Date(Date.now() + 60_000)
  const send = async () => {
    for (let reference = queue.shift(); reference !== undefined; reference = queue.shift()) {
      const verdict = await callRail(rail, { reference, attempt: 1, payload, notAfter })
      console.log(JSON.stringify([reference, verdict.kind, verdict.reference]))
    }
  }
  await Promise.all(Array.from({ length: 8 }, send))
  console.log('done')
  await rail.close()
  process.exit(0)
})
`

export async function startRailWorker(
  options: SimulatedRailOptions,
  references: readonly string[],
): Promise<RailWorker> {
  const child = spawn(
    process.execPath,
    ['--input-type=module', '--eval', PROGRAM, builtPath('libs/rails/index.js'), JSON.stringify(options)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  const answered = new Map<string, string>()
  const lines = createInterface(child.stdout)
  const allRead = once(lines, 'close')
  const closed = allRead.then(() => 'closed' as const)
  const exited = once(child, 'exit')
  const ready = once(lines, 'line')
  let isDone = false
  lines.on('line', (line) => {
    if (line === 'ready') return
    if (line === 'done') {
      isDone = true
      return
    }
    const [reference, kind, railReference]: [string, string, string] = JSON.parse(line)
    if (kind === 'success') answered.set(reference, railReference)
  })
  await ready
  return {
    process: child,
    answered,
    done: async () => {
      await allRead
      if (!isDone) throw new Error('the worker ended before it was done')
    },
    go: () => void child.stdin.write(`${JSON.stringify(references)}\n`),
    untilAnswered: async (count) => {
      while (answered.size < count) {
        if ((await Promise.race([once(lines, 'line'), closed])) === 'closed') return
      }
    },
    kill: async () => {
      child.kill('SIGKILL')
      await exited
      await allRead
    },
  }
}
