import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  callRail,
  loadRail,
  readBook,
  simulatedRail,
  type SimulatedRailOptions,
  type startRailBook,
} from '../../libs/rails/index.js'
import { builtPath } from '../support/builtPath.js'
import { railRequest } from '../support/railRequest.js'
import { startRailWorker } from '../support/railWorker.js'

let folder: string
let bookFile: string
const toStop: (() => Promise<void>)[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-rail-book-'))
  bookFile = join(folder, 'rail.ndjson')
})

afterEach(async () => {
  for (const stop of toStop.splice(0)) await stop()
  await rm(folder, { recursive: true })
})

function references(count: number): string[] {
  return Array.from({ length: count }, () => randomUUID())
}

/** Loads startRailBook from dist/, because it starts a program file of the same folder. */
async function builtStarter(): Promise<typeof startRailBook> {
  const built: { startRailBook: typeof startRailBook } = await import(builtPath('libs/rails/index.js'))
  return built.startRailBook
}

/** Starts the rail book in its own process, as the demo and the chaos runs do. */
async function startBook() {
  const start = await builtStarter()
  const book = await start({ file: bookFile })
  toStop.push(book.stop)
  return book
}

/** Forms of the rail book, each as the options of a rail that uses it. */
const FORMS = [
  ['a file', async () => ({ bookFile })],
  ['a separate process', async () => ({ bookUrl: (await startBook()).url })],
] as const

describe.each(FORMS)('three processes that share a rail book in %s', (_, openBook) => {
  it('pay each reference once under one rail reference if the rail is idempotent', { timeout: 120_000 }, async () => {
    const options: SimulatedRailOptions = { onUnknown: 'resend', ...(await openBook()) }
    const payments = references(150)
    const workers = await Promise.all([1, 2, 3].map(() => startRailWorker(options, payments)))
    for (const worker of workers) worker.go()
    await Promise.all(workers.map((worker) => worker.done()))
    const book = await readBook(bookFile)
    expect(book.size).toBe(150)
    for (const [reference, { count, railReference }] of book) {
      expect(count).toBe(1)
      for (const { answered } of workers) expect(answered.get(reference)).toBe(railReference)
    }
  })

  it(
    'pay each reference three times if the rail is not idempotent; the book records each',
    { timeout: 120_000 },
    async () => {
      const options: SimulatedRailOptions = { onUnknown: 'hold', ...(await openBook()) }
      const payments = references(80)
      const workers = await Promise.all([1, 2, 3].map(() => startRailWorker(options, payments)))
      for (const worker of workers) worker.go()
      await Promise.all(workers.map((worker) => worker.done()))
      const book = await readBook(bookFile)
      expect(book.size).toBe(80)
      for (const { count } of book.values()) expect(count).toBe(3)
    },
  )
})

describe.each(FORMS)('killed workers with a rail book in %s', (_, openBook) => {
  it('leave each answered payment in the book, and no payment twice', { timeout: 120_000 }, async () => {
    const options: SimulatedRailOptions = { onUnknown: 'resend', ...(await openBook()) }
    const payments = references(4_000)
    const answers = new Map<string, string>()
    for (let round = 0; round < 3; round += 1) {
      const worker = await startRailWorker(options, payments)
      worker.go()
      await worker.untilAnswered(1 + Math.random() * 300)
      await sleep(Math.random() * 5)
      await worker.kill()
      for (const [reference, railReference] of worker.answered) {
        // A restarted worker gets the rail reference of the first answer.
        expect(answers.get(reference) ?? railReference).toBe(railReference)
        answers.set(reference, railReference)
      }
    }
    const book = await readBook(bookFile)
    for (const [reference, railReference] of answers) {
      expect(book.get(reference)).toMatchObject({ count: 1, railReference })
    }
    for (const { count } of book.values()) expect(count).toBe(1)
  })
})

describe('the process of a rail book', () => {
  it('loses no payment when it is killed', async () => {
    const first = await startBook()
    const request = railRequest()
    const rail = loadRail(simulatedRail({ onUnknown: 'resend', bookUrl: first.url }))
    const { reference } = await callRail(rail, request)
    process.kill(first.pid, 'SIGKILL')
    await first.stop()
    expect((await callRail(rail, railRequest())).kind).toBe('notSent')
    const second = await startBook()
    const next = loadRail(simulatedRail({ onUnknown: 'resend', bookUrl: second.url }))
    expect(await callRail(next, request)).toMatchObject({ kind: 'success', reference })
    expect((await readBook(bookFile)).get(request.reference)?.count).toBe(1)
    await Promise.all([rail.close(), next.close()])
  })

  it('ends when the process that started it is killed', async () => {
    const program = `
      const { startRailBook } = await import(process.argv[1])
      const book = await startRailBook({ file: process.argv[2] })
      console.log(book.pid)
      setInterval(() => {}, 1000)
    `
    const parent = spawn(
      process.execPath,
      ['--input-type=module', '--eval', program, builtPath('libs/rails/index.js'), bookFile],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const [pid] = await once(createInterface(parent.stdout), 'line')
    parent.kill('SIGKILL')
    await expect.poll(() => isAlive(Number(pid)), { timeout: 60_000 }).toBe(false)
  })

  it('fails to start without a file (RAIL_BOOK_NOT_STARTED)', async () => {
    const start = await builtStarter()
    await expect(start({ file: '' })).rejects.toMatchObject({
      code: 'RAIL_BOOK_NOT_STARTED',
      message: expect.stringContaining('file: expected text that is not blank'),
    })
  })
})

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}
