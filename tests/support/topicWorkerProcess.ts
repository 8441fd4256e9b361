import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { builtPath } from './builtPath.js'

/**
 * Point at which the process kills itself, in the order of one message: the handler has written, the completion is
 * recorded and not committed, the transaction is committed and not reported.
 */
export type TopicKillPoint = 'written' | 'recorded' | 'committed'

export interface TopicWorkerProcessOptions {
  readonly url: string
  readonly schema: string
  readonly handlerRole: string
  readonly workerId: string
  readonly leaseSeconds: number
  /** @default none: the test kills the process */
  readonly killAt?: TopicKillPoint
}

/** A process with a relayer whose handler of the topic `effect` inserts one effect per message through `tx`. */
export interface TopicWorkerProcess {
  /** Resolves after `more` further recorded messages, or when the process exits. */
  untilRecorded(more: number): Promise<void>
  /** Resolves with the signal that ended the process, when it has exited. */
  readonly exited: Promise<NodeJS.Signals | null>
  kill(): Promise<void>
  stop(): Promise<void>
}

const PROGRAM = `
const [, outboxPath, railsPath, dbPath, given] = process.argv
const { OutboxRelayer, topicRails } = await import(outboxPath)
const { loadRails } = await import(railsPath)
const { openDatabase } = await import(dbPath)
const { url, schema, killAt, ...options } = JSON.parse(given)
const at = (point) => point === killAt && process.kill(process.pid, 'SIGKILL')
const opened = openDatabase({ url, schema })
const database = new Proxy(opened, {
  get: (target, name) => {
    const member = Reflect.get(target, name, target)
    if (name !== 'as') return typeof member === 'function' ? member.bind(target) : member
    return (role) => {
      const handle = target.as(role)
      const transaction = async (body) => {
        const result = await handle.transaction(async (tx) => {
          const recorded = await body(tx)
          at('recorded')
          return recorded
        })
        at('committed')
        return result
      }
      return { ...handle, transaction }
    }
  },
})
const effect = async ({ messageId, attempt }, { tx }) => {
  await tx.query('INSERT INTO shop.effects (message_id, process) VALUES ($1, $2)', [messageId, process.pid])
  at('written')
  if (killAt === undefined && attempt === 1 && Math.random() < 0.05) throw new Error('the first attempt failed')
}
const settings = { pollMs: 50, heartbeatMs: 1000, ...options }
const relayer = new OutboxRelayer(database, loadRails(topicRails({ effect })), settings, (event) => {
  if (event.type === 'outbox.recorded') console.log('recorded')
  if (event.type === 'outbox.fault') console.error(String(event.error))
})
process.stdin.on('end', async () => {
  await relayer.stop()
  await opened.close()
  process.exit(0)
})
process.stdin.resume()
await relayer.start()
console.log('ready')
`

export async function startTopicWorker(options: TopicWorkerProcessOptions): Promise<TopicWorkerProcess> {
  const paths = ['outbox', 'rails', 'db'].map((module) => builtPath(`libs/${module}/index.js`))
  const words = ['--input-type=module', '--eval', PROGRAM, ...paths, JSON.stringify(options)]
  const child = spawn(process.execPath, words, { stdio: ['pipe', 'pipe', 'inherit'] })
  let recorded = 0
  const lines = createInterface(child.stdout)
  const closed = once(lines, 'close').then(() => 'closed' as const)
  const exited = once(child, 'exit').then(() => child.signalCode)
  const ready = once(lines, 'line')
  lines.on('line', (line) => {
    if (line === 'recorded') recorded += 1
  })
  await Promise.race([ready, exited])
  return {
    exited,
    untilRecorded: async (more) => {
      for (const wanted = recorded + more; ;) {
        if (recorded >= wanted || (await Promise.race([once(lines, 'line'), closed])) === 'closed') return
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
