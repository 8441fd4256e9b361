import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { builtPath } from './builtPath.js'

/** A process with an inbox worker that a test can kill. */
export interface InboxWorkerProcess {
  /** Returns the number of messages that the process reported as done. */
  readonly done: () => number
  /** Resolves after `more` further done messages, or when the process exits. */
  untilDone(more: number): Promise<void>
  /** Kills the process with SIGKILL and waits for its exit. */
  kill(): Promise<void>
  /** Stops the process cleanly and waits for its exit. */
  stop(): Promise<void>
}

export interface InboxWorkerProcessOptions {
  readonly url: string
  readonly schema: string
  readonly handlerRole: string
  readonly workerId: string
  readonly leaseSeconds: number
  readonly concurrency: number
}

/**
 * Program of the process. Its handler inserts one effect per message through `tx`, and 5 % of first attempts then fail.
 */
const PROGRAM = `
const [, inboxPath, dbPath, options] = process.argv
const { InboxWorker } = await import(inboxPath)
const { openDatabase } = await import(dbPath)
const { url, schema, ...workerOptions } = JSON.parse(options)
const database = openDatabase({ url, schema })
const handler = async ({ source, messageId, attemptCount }, { tx }) => {
  await tx.query('INSERT INTO shop.effects (source, message_id, process) VALUES ($1, $2, $3)', [source, messageId, process.pid])
  if (attemptCount === 1 && Math.random() < 0.05) throw new Error('the first attempt failed')
}
// attemptsMax is high enough that no message is dead-lettered on a busy machine.
const settings = { pollMs: 50, attemptsMax: 1000, ...workerOptions }
const worker = new InboxWorker(database, { effect: handler }, settings, (event) => {
  if (event.type === 'inbox.done') console.log('done')
  if (event.type === 'inbox.fault') console.error(String(event.error))
})
process.stdin.on('end', async () => {
  await worker.stop()
  await database.close()
  process.exit(0)
})
process.stdin.resume()
await worker.start()
console.log('ready')
`

/** Returns the arguments of `node` for an inbox worker that prints a line per done message. */
export function inboxWorkerCommand(options: InboxWorkerProcessOptions): readonly string[] {
  const modules = [builtPath('libs/inbox/index.js'), builtPath('libs/db/index.js')]
  return ['--input-type=module', '--eval', PROGRAM, ...modules, JSON.stringify(options)]
}

export async function startInboxWorker(options: InboxWorkerProcessOptions): Promise<InboxWorkerProcess> {
  const child = spawn(process.execPath, inboxWorkerCommand(options), { stdio: ['pipe', 'pipe', 'inherit'] })
  let done = 0
  const lines = createInterface(child.stdout)
  const closed = once(lines, 'close').then(() => 'closed' as const)
  const exited = once(child, 'exit')
  const ready = once(lines, 'line')
  lines.on('line', (line) => {
    if (line === 'done') done += 1
  })
  await ready
  return {
    done: () => done,
    untilDone: async (more) => {
      for (const wanted = done + more; ;) {
        if (done >= wanted || (await Promise.race([once(lines, 'line'), closed])) === 'closed') return
      }
    },
    kill: async () => {
      child.kill('SIGKILL')
      await exited
    },
    stop: async () => {
      child.stdin.end()
      await exited
    },
  }
}
