import { once } from 'node:events'
import { appendFileSync, existsSync } from 'node:fs'
import { appendFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  callRail,
  inquireRail,
  loadRail,
  readBook,
  serveRailBook,
  SIMULATED_BEHAVIOURS,
  simulatedRail,
  RAIL_RESULT_CODES,
  type LoadedRail,
  type RailEffect,
  type RailPayment,
  type SimulatedRailOptions,
} from '../../libs/rails/index.js'
import { systemClock } from '../../libs/core/index.js'
import { FileRailBook } from '../../libs/rails/simulated/FileRailBook.js'
import { portOf } from '../support/portOf.js'
import { PAYABLE, railRequest } from '../support/railRequest.js'

let folder: string
let bookFile: string
const toClose: (() => Promise<void>)[] = []

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-rail-book-'))
  bookFile = join(folder, 'books', 'rail.ndjson')
})

afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
  await rm(folder, { recursive: true })
})

function rail(given: Partial<SimulatedRailOptions> = {}): LoadedRail {
  const declared = given.bookUrl === undefined ? { bookFile } : {}
  const loaded = loadRail(simulatedRail({ onUnknown: 'resend', timeoutMs: 10_000, slowMs: 20, ...declared, ...given }))
  toClose.push(loaded.close)
  return loaded
}

function simulate(script: string | string[], given: Parameters<typeof railRequest>[0] = {}) {
  return railRequest({ ...given, payload: { ...PAYABLE, simulate: script } })
}

describe('a payment with scripted behaviour', () => {
  it.each([
    ['success', { kind: 'success', code: 'SIM_PAID' }, 1],
    ['terminal', { kind: 'terminal', code: 'SIM_REJECTED' }, 0],
    ['retryable', { kind: 'retryable', code: 'SIM_BUSY' }, 0],
    ['slow', { kind: 'success', code: 'SIM_PAID' }, 1],
    ['timeoutAfterPaying', { kind: 'unknown', code: RAIL_RESULT_CODES.timeout }, 1],
    ['duplicate', { kind: 'success', code: 'SIM_PAID' }, 1],
    ['garbage', { kind: 'unknown', code: RAIL_RESULT_CODES.malformed }, 1],
    ['refused', { kind: 'notSent', code: RAIL_RESULT_CODES.notSent }, 0],
    ['nonsense', { kind: 'terminal', code: 'SIM_SCRIPT_UNKNOWN' }, 0],
  ])('behaves as scripted: %s', async (script, verdict, effects) => {
    const request = simulate(script)
    const timeoutMs = script === 'timeoutAfterPaying' ? 300 : 10_000
    expect(await callRail(rail({ timeoutMs }), request)).toMatchObject(verdict)
    // A rail that paid nothing may have no book file.
    const book = existsSync(bookFile) ? await readBook(bookFile) : new Map<string, RailEffect>()
    expect(book.get(request.reference)?.count ?? 0).toBe(effects)
  })

  it('follows one entry of its list per attempt, and repeats the last entry', async () => {
    const loaded = rail()
    const kinds = []
    for (const attempt of [1, 2, 3, 4]) {
      kinds.push((await callRail(loaded, simulate(['retryable', 'refused', 'success'], { attempt }))).kind)
    }
    expect(kinds).toEqual(['retryable', 'notSent', 'success', 'success'])
  })

  it('pays nothing if it is slow and the call times out', async () => {
    const request = simulate('slow')
    const loaded = rail({ timeoutMs: 20, slowMs: 2_000 })
    expect((await callRail(loaded, request)).kind).toBe('unknown')
    expect((await inquireRail(loaded, request)).kind).toBe('absent')
  })
})

describe('the rail book', () => {
  it('has reference, amount, currency and time of each payment', async () => {
    const request = railRequest()
    const verdict = await callRail(rail(), request)
    expect([...(await readBook(bookFile)).values()]).toEqual([
      {
        reference: request.reference,
        count: 1,
        repeats: 0,
        railReference: verdict.reference,
        amount: '10.00',
        currency: 'EUR',
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      },
    ])
  })

  it('has a reference once for an idempotent rail, however often it is sent', async () => {
    const loaded = rail()
    const request = railRequest()
    const verdicts = [await callRail(loaded, request), await callRail(loaded, { ...request, attempt: 2 })]
    verdicts.push(...(await Promise.all(Array.from({ length: 20 }, () => callRail(loaded, request)))))
    expect(new Set(verdicts.map(({ reference }) => reference)).size).toBe(1)
    expect((await readBook(bookFile)).get(request.reference)).toMatchObject({ count: 1, repeats: 0 })
  })

  it('has a reference once if it is sent twice concurrently', async () => {
    const loaded = rail()
    const twin = railRequest()
    await Promise.all([railRequest(), twin, twin].map((request) => callRail(loaded, request)))
    expect((await readBook(bookFile)).get(twin.reference)).toMatchObject({ count: 1, repeats: 0 })
  })

  it('returns the payment of another process that recorded the reference first', async () => {
    await callRail(rail(), railRequest())
    const payment = { reference: 'x', amount: '1.00', currency: 'EUR', once: true }
    const quicker = { ...payment, railReference: 'theirs', at: '2026-01-01T00:00:00.000Z' }
    // The book reads the clock after it has read the lines of other processes and before it writes its own. Here the
    // clock appends a line of another process.
    const book = new FileRailBook(bookFile, {
      ...systemClock,
      now: () => {
        appendFileSync(bookFile, `\n${JSON.stringify(quicker)}\n`)
        return new Date()
      },
    })
    const receipt = await book.pay({ ...payment, notAfter: new Date(Date.now() + 60_000) })
    expect(receipt).toEqual({ paid: true, railReference: 'theirs', repeated: true })
    expect((await readBook(bookFile)).get('x')).toMatchObject({ count: 1, repeats: 1, railReference: 'theirs' })
    await book.close()
  })

  it.each(['inquire', 'hold'] as const)(
    'has two payments if a rail with onUnknown %s is called twice',
    async (onUnknown) => {
      const loaded = rail({ onUnknown })
      const request = railRequest()
      const first = await callRail(loaded, request)
      const second = await callRail(loaded, request)
      expect(first.kind).toBe('success')
      expect(second.reference).not.toBe(first.reference)
      expect((await readBook(bookFile)).get(request.reference)).toMatchObject({
        count: 2,
        railReference: first.reference,
      })
    },
  )

  it('has two payments for the script “duplicate” on a rail that is not idempotent', async () => {
    const request = simulate('duplicate')
    await callRail(rail({ onUnknown: 'inquire' }), request)
    expect((await readBook(bookFile)).get(request.reference)?.count).toBe(2)
  })

  it('has two payments if a rail with resend and idempotent: false is called twice', async () => {
    const loaded = rail({ onUnknown: 'resend', idempotent: false })
    const request = railRequest()
    await callRail(loaded, request)
    await callRail(loaded, request)
    expect((await readBook(bookFile)).get(request.reference)?.count).toBe(2)
  })

  it('is read by the next process that uses the file', async () => {
    const request = railRequest()
    const first = await callRail(rail(), request)
    const next = rail()
    expect(await inquireRail(next, request)).toMatchObject({ kind: 'success', reference: first.reference })
    expect((await callRail(next, request)).reference).toBe(first.reference)
  })

  it('refuses a request after its not-after time (SIM_TOO_LATE)', async () => {
    const request = railRequest({ notAfter: new Date(Date.now() - 1) })
    expect(await callRail(rail(), request)).toMatchObject({ kind: 'retryable', code: 'SIM_TOO_LATE' })
    expect((await readBook(bookFile)).size).toBe(0)
  })

  it('ignores a truncated line and keeps the lines after it', async () => {
    const [before, cut, after] = [railRequest(), railRequest(), railRequest()]
    const loaded = rail()
    await callRail(loaded, before)
    await callRail(loaded, cut)
    // A kill during a write leaves part of the last line without its line end.
    const whole = await readFile(bookFile, 'utf8')
    await writeFile(bookFile, whole.slice(0, -20))
    const next = rail()
    expect((await inquireRail(next, cut)).kind).toBe('absent')
    await callRail(next, after)
    expect([...(await readBook(bookFile)).keys()]).toEqual([before.reference, after.reference])
  })

  it('cannot be read if the file is missing (ENOENT)', async () => {
    await expect(readBook(join(folder, 'typo.ndjson'))).rejects.toThrow('ENOENT')
  })

  it('counts only the first of two lines that two processes wrote for one reference', async () => {
    await callRail(rail(), railRequest())
    const line = { reference: 'x', amount: '1.00', currency: 'EUR', once: true, at: '2026-01-01T00:00:00.000Z' }
    for (const railReference of ['first', 'second']) {
      await appendFile(bookFile, `\n${JSON.stringify({ ...line, railReference })}\n`)
    }
    expect((await readBook(bookFile)).get('x')).toMatchObject({ count: 1, repeats: 1, railReference: 'first' })
    expect((await callRail(rail(), railRequest({ reference: 'x' }))).reference).toBe('first')
  })

  it('lists each payment of a period once, whether it is read from the file or from its process', async () => {
    const server = await serveRailBook({ file: bookFile })
    toClose.push(server.close)
    const line = { amount: '1.00', currency: 'EUR', once: true }
    const lines = Array.from({ length: 1_500 }, (_, index) => ({
      ...line,
      reference: `r-${index % 1_000}`,
      railReference: `b-${index}`,
      at: `2026-01-0${index < 500 ? 1 : 2}T08:00:00.000Z`,
    }))
    await writeFile(bookFile, `\n${lines.map((one) => JSON.stringify(one)).join('\n')}\n{"reference":"cut`)
    const period = { from: new Date('2026-01-02T00:00:00Z'), to: new Date('2026-01-03T00:00:00Z') }
    for (const loaded of [rail(), rail({ bookUrl: server.url })]) {
      const listed: RailPayment[] = []
      for await (const payment of loaded.listPayments?.(period, { signal: new AbortController().signal }) ?? []) {
        listed.push(payment)
      }
      // The first 500 lines are outside the period, the last 500 are repeated requests.
      expect(listed).toEqual(
        lines.slice(500, 1_000).map(({ reference, railReference }) => ({
          reference,
          bankReference: railReference,
          amount: '1.00',
          currency: 'EUR',
          bookedOn: '2026-01-02',
        })),
      )
    }
  })

  it('causes an unknown outcome if it cannot be written', async () => {
    await writeFile(join(folder, 'books'), 'a file where a folder should be')
    expect((await callRail(rail(), railRequest())).kind).toBe('unknown')
  })
})

describe('random behaviour of the simulated rail', () => {
  const WEIGHTS = { success: 5, terminal: 2, retryable: 2, refused: 1 }

  async function kindsOf(seed: string, count: number): Promise<string[]> {
    const loaded = rail({ behaviour: WEIGHTS, seed })
    const kinds: string[] = []
    for (let item = 0; item < count; item += 1) {
      kinds.push((await callRail(loaded, railRequest({ reference: `payment-${item}` }))).kind)
    }
    return kinds
  }

  it('is the same for the same seed and differs for another seed', async () => {
    const kinds = await kindsOf('a', 60)
    expect(await kindsOf('a', 60)).toEqual(kinds)
    expect(await kindsOf('b', 60)).not.toEqual(kinds)
  })

  it('has each behaviour about as often as its weight demands', async () => {
    const kinds = await kindsOf('a', 400)
    const share = (kind: string) => kinds.filter((each) => each === kind).length / kinds.length
    expect(share('success')).toBeGreaterThan(0.4)
    expect(share('success')).toBeLessThan(0.6)
    expect(share('notSent')).toBeGreaterThan(0.04)
    expect(share('notSent')).toBeLessThan(0.2)
  })

  it('is chosen again for each attempt', async () => {
    const loaded = rail({ behaviour: { success: 1, retryable: 1 } })
    const kinds = new Set<string>()
    for (let attempt = 1; attempt <= 20; attempt += 1) {
      kinds.add((await callRail(loaded, railRequest({ reference: 'one', attempt }))).kind)
    }
    expect(kinds.size).toBe(2)
  })

  it('may be any named behaviour', () => {
    for (const behaviour of SIMULATED_BEHAVIOURS) expect(() => rail({ behaviour: { [behaviour]: 1 } })).not.toThrow()
  })
})

describe('simulatedRail', () => {
  it.each([
    ['no book', { bookFile: undefined }, 'bookFile: expected either bookFile or bookUrl'],
    ['two books', { bookUrl: 'tcp://127.0.0.1:1' }, 'bookFile: expected either bookFile or bookUrl'],
    ['an unknown behaviour', { behaviour: 'sucess' }, 'behaviour."sucess": unknown; did you mean success?'],
    ['no weight', { behaviour: {} }, 'behaviour: expected at least one weight above zero'],
    [
      'a weight below zero',
      { behaviour: { success: -1 } },
      'behaviour.success: expected a weight of zero or more, got -1',
    ],
    [
      'a latency with max below min',
      { latencyMs: { min: 5, max: 4 } },
      'latencyMs.max: expected a whole number from 5',
    ],
    ['a negative slowMs', { slowMs: -1 }, 'slowMs: expected a whole number'],
  ])('refuses %s', (_, given, message) => {
    const options: SimulatedRailOptions = JSON.parse('{"onUnknown":"resend"}')
    expect(() => simulatedRail(Object.assign(options, { bookFile }, given))).toThrow(message)
  })

  it('has no queryStatus with onUnknown hold', () => {
    expect(rail({ onUnknown: 'hold' }).queryStatus).toBeUndefined()
    expect(rail({ onUnknown: 'inquire' }).queryStatus).toBeDefined()
  })

  it('creates no file before the first call', async () => {
    await rail().close()
    await expect(readBook(bookFile)).rejects.toThrow('ENOENT')
  })
})

describe('a rail book behind a connection', () => {
  it('behaves like a rail book in a file', async () => {
    const server = await serveRailBook({ file: bookFile })
    toClose.push(server.close)
    const loaded = rail({ bookUrl: server.url, onUnknown: 'inquire', idempotent: true })
    const request = railRequest()
    expect((await inquireRail(loaded, request)).kind).toBe('absent')
    const first = await callRail(loaded, request)
    expect(first.kind).toBe('success')
    expect((await callRail(loaded, request)).reference).toBe(first.reference)
    expect(await inquireRail(loaded, request)).toMatchObject({ kind: 'success', reference: first.reference })
    expect((await readBook(bookFile)).get(request.reference)).toMatchObject({ count: 1, amount: '10.00' })
  })

  it('refuses a late payment (SIM_TOO_LATE) and answers an invalid request without a receipt', async () => {
    const server = await serveRailBook({ file: bookFile })
    toClose.push(server.close)
    const late = railRequest({ notAfter: new Date(Date.now() - 1) })
    expect((await callRail(rail({ bookUrl: server.url }), late)).code).toBe('SIM_TOO_LATE')
    expect(await answerTo(server.url, '{"id":7,"pay":{"reference":1}}\n')).toBe('{"id":7}\n')
    expect(await answerTo(server.url, '{"id":8,"page":-1}\n')).toBe('{"id":8}\n')
    expect((await readBook(bookFile)).size).toBe(0)
  })

  it.each([
    ['that is no JSON', 'POST /payments HTTP/1.1\n'],
    ['that is no object', 'null\n'],
    ['that has no end after 4,096 characters', 'x'.repeat(5_000)],
  ])('closes a connection after a line %s', async (_, written) => {
    const server = await serveRailBook({ file: bookFile })
    toClose.push(server.close)
    expect(await answerTo(server.url, written)).toBe('')
    expect((await callRail(rail({ bookUrl: server.url }), railRequest())).kind).toBe('success')
  })

  it('leaves the outcome unknown if its answer has no receipt, is no JSON, or does not arrive', async () => {
    for (const answer of ['{"id":1}\n', 'oops\n', '', undefined]) {
      const server = createServer((socket) => {
        socket.once('data', () => (answer === undefined ? undefined : socket.end(answer)))
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const loaded = rail({ bookUrl: `tcp://127.0.0.1:${portOf(server)}`, timeoutMs: 200 })
      expect((await callRail(loaded, railRequest())).kind).toBe('unknown')
      await loaded.close()
      server.close()
    }
  })

  it('causes notSent if it cannot be reached', async () => {
    const server = await serveRailBook({ file: bookFile })
    await server.close()
    expect((await callRail(rail({ bookUrl: server.url }), railRequest())).kind).toBe('notSent')
  })

  it('closes even while the connection of a client is open', async () => {
    const server = await serveRailBook({ file: bookFile })
    const loaded = rail({ bookUrl: server.url })
    await callRail(loaded, railRequest())
    await server.close()
    // A call before the client has noticed the end of its connection is unknown.
    await expect.poll(async () => (await callRail(loaded, railRequest())).kind).toBe('notSent')
  })
})

/** Sends a text to a rail book. Returns its answer; an empty text if it closes the connection. */
function answerTo(url: string, written: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  socket.write(written)
  return new Promise((resolve) => {
    socket
      .once('data', (answer) => {
        resolve(String(answer))
        socket.destroy()
      })
      .once('error', () => resolve(''))
      .once('close', () => resolve(''))
  })
}
