import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import {
  callRail,
  inquireRail,
  NotSentError,
  RAIL_RESULT_CODES,
  type LoadedRail,
  type RailResult,
} from '../../libs/rails/index.js'
import { answering, railOf, railRequest } from '../support/railRequest.js'

const CODES = { OK: 'success', NO: 'terminal', LATER: 'retryable', EH: 'unknown', GONE: 'absent' } as const

describe('callRail without a table of codes', () => {
  it.each([
    [
      { outcome: 'success', reference: 'r-1' },
      { kind: 'success', reference: 'r-1', code: 'OK' },
    ],
    [
      { outcome: 'success', reference: 'r-1', code: 'A0' },
      { kind: 'success', reference: 'r-1', code: 'A0', railCode: 'A0' },
    ],
    [
      { outcome: 'terminal', code: 'NO' },
      { kind: 'terminal', code: 'NO', railCode: 'NO' },
    ],
    [
      { outcome: 'terminal', code: 'NO', message: 'closed' },
      { kind: 'terminal', code: 'NO', railCode: 'NO', message: 'closed' },
    ],
    [
      { outcome: 'retryable', code: 'LATER' },
      { kind: 'retryable', code: 'LATER', railCode: 'LATER' },
    ],
    [
      { outcome: 'unknown', code: 'EH' },
      { kind: 'unknown', code: 'EH', railCode: 'EH' },
    ],
    [{ outcome: 'unknown' }, { kind: 'unknown', code: RAIL_RESULT_CODES.unknown }],
  ])('classifies %j by its outcome', async (answer, verdict) => {
    expect(await callRail(answering(answer), railRequest())).toEqual({ ...verdict, latencyMs: expect.any(Number) })
  })
})

describe('callRail with a malformed answer', () => {
  it.each([
    ['nothing', undefined],
    ['null', null],
    ['HTML', '<html>502 Bad Gateway</html>'],
    ['a number', 200],
    ['true', true],
    ['a list', [{ outcome: 'success', reference: 'r' }]],
    ['an empty object', {}],
    ['an unknown outcome', { outcome: 'paid', reference: 'r' }],
    ['an outcome in capitals', { outcome: 'SUCCESS', reference: 'r' }],
    ['an outcome in a list', { outcome: ['success'], reference: 'r' }],
    ['an outcome of inquiries', { outcome: 'absent', code: 'NOT_FOUND' }],
    ['a refusal without a code', { outcome: 'terminal' }],
    ['a refusal with a code that is a number', { outcome: 'terminal', code: 51 }],
    ['a refusal with a blank code', { outcome: 'terminal', code: '  ' }],
    ['a refusal with a code that is too long', { outcome: 'terminal', code: 'X'.repeat(129) }],
    ['a retry without a code', { outcome: 'retryable', message: 'busy' }],
    [
      'a getter that throws',
      Object.defineProperty({}, 'outcome', {
        enumerable: true,
        get: () => {
          throw new Error()
        },
      }),
    ],
    [
      'a proxy that throws',
      new Proxy(
        {},
        {
          ownKeys: () => {
            throw new Error()
          },
        },
      ),
    ],
    ['a function', () => ({ outcome: 'success', reference: 'r' })],
  ])('returns unknown for %s', async (_, answer) => {
    const verdict = await callRail(answering(answer), railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.malformed })
    expect(verdict.unknownCode).toBeUndefined()
  })

  it.each([
    ['missing', undefined],
    ['blank', ' \t'],
    ['empty', ''],
    ['a number', 42],
    ['null', null],
  ])('returns unknown for a success whose reference is %s', async (_, reference) => {
    const verdict = await callRail(answering({ outcome: 'success', reference }), railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.noReference })
  })

  it.each([
    ['too long', 'r'.repeat(256), `reference of 256 characters: "${'r'.repeat(200)}…"`],
    ['not storable', 'r\u0000', 'reference of 2 characters: "r\\u0000"'],
    ['half a surrogate pair', 'r\ud800', 'reference of 2 characters: "r\\ud800"'],
    ['a control sequence', '\u001b[2J"\\', 'reference of 6 characters: "\\u001b[2J\\u0022\\u005c"'],
    ['10 MB', 'r'.repeat(10_000_000), `reference of 10000000 characters: "${'r'.repeat(200)}…"`],
  ])('returns unknown with the reference as evidence if the reference is %s', async (_, reference, message) => {
    const verdict = await callRail(answering({ outcome: 'success', reference }), railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.badReference, message })
    const result = await callRail(answering({ outcome: 'success', reference, message: 'paid' }), railRequest())
    expect(result.message).toBe(`${message}; paid`)
  })

  it('accepts a reference of 255 characters or with digits like a card number as well-formed', async () => {
    for (const reference of ['r'.repeat(255), '4111111111111111', 'DE89370400440532013000']) {
      expect(await callRail(answering({ outcome: 'success', reference }), railRequest())).toMatchObject({ reference })
    }
  })
})

describe('callRail with a table of codes', () => {
  it.each([
    [{ outcome: 'success', reference: 'r', code: 'OK' }, 'success'],
    [{ outcome: 'success', reference: 'r' }, 'success'],
    [{ outcome: 'terminal', code: 'NO' }, 'terminal'],
    [{ outcome: 'retryable', code: 'LATER' }, 'retryable'],
    [{ outcome: 'unknown', code: 'EH' }, 'unknown'],
  ])('accepts %j, which agrees with the table', async (answer, kind) => {
    const verdict = await callRail(answering(answer, { codes: CODES }), railRequest())
    expect(verdict.kind).toBe(kind)
    expect(verdict.unknownCode).toBeUndefined()
  })

  it.each([
    [{ outcome: 'terminal', code: 'LATER' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'retryable', code: 'NO' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'success', reference: 'r', code: 'NO' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'terminal', code: 'OK' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'unknown', code: 'OK' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'terminal', code: 'GONE' }, RAIL_RESULT_CODES.codeDisagrees],
    [{ outcome: 'terminal', code: 'NEW' }, RAIL_RESULT_CODES.codeNotListed],
    [{ outcome: 'success', reference: 'r', code: 'NEW' }, RAIL_RESULT_CODES.codeNotListed],
    [{ outcome: 'unknown', code: 'NEW' }, RAIL_RESULT_CODES.codeNotListed],
    [{ outcome: 'terminal', code: 'no' }, RAIL_RESULT_CODES.codeNotListed],
    [{ outcome: 'terminal', code: 'constructor' }, RAIL_RESULT_CODES.codeNotListed],
  ])('returns unknown and unknownCode for %j, which the table contradicts or lacks', async (answer, code) => {
    const verdict = await callRail(answering(answer, { codes: CODES }), railRequest())
    expect(verdict).toMatchObject({ kind: 'unknown', code, railCode: answer.code, unknownCode: true })
    expect(verdict.reference).toBeUndefined()
  })

  it('returns unknown for a refusal without a code', async () => {
    expect((await callRail(answering({ outcome: 'terminal' }, { codes: CODES }), railRequest())).kind).toBe('unknown')
  })
})

describe('retryAfterMs of a rail answer', () => {
  it.each([
    [5_000, 5_000],
    [0, 1_000],
    [999, 1_000],
    [1_000.2, 1_001],
    [86_400_000, 86_400_000],
    [86_400_001, 86_400_000],
    [Number.POSITIVE_INFINITY, 86_400_000],
    [-1, undefined],
    [Number.NaN, undefined],
    ['5', undefined],
  ])('is limited to 1 s to 24 h, or dropped if invalid: %s becomes %s', async (retryAfterMs, expected) => {
    const verdict = await callRail(answering({ outcome: 'retryable', code: 'LATER', retryAfterMs }), railRequest())
    expect(verdict.retryAfterMs).toBe(expected)
  })

  it('is dropped after a terminal answer', async () => {
    const verdict = await callRail(answering({ outcome: 'terminal', code: 'NO', retryAfterMs: 5_000 }), railRequest())
    expect(verdict.retryAfterMs).toBeUndefined()
  })
})

describe('an error of the adapter', () => {
  it.each([
    ['an error', new Error('socket hang up')],
    ['text', 'boom'],
    ['nothing', undefined],
    ['an object', { code: 'E' }],
    [
      'a proxy that throws',
      new Proxy(new Error('x'), {
        get: () => {
          throw new Error('again')
        },
        getPrototypeOf: () => {
          throw new Error('again')
        },
      }),
    ],
    ['an error that wraps NotSentError', new Error('later', { cause: new NotSentError('refused') })],
    ['an object that only has the name', { name: 'NotSentError' }],
  ])('is classified as unknown: %s', async (_, thrown) => {
    const rail = railOf(() => {
      throw thrown
    })
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.threw })
    const later = railOf(async () => {
      await sleep(1)
      throw thrown
    })
    expect(await callRail(later, railRequest())).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.threw })
  })

  it.each([
    ['NotSentError', new NotSentError('connect ECONNREFUSED')],
    ['a NotSentError of another copy of the package', Object.assign(new Error('refused'), { name: 'NotSentError' })],
  ])('is classified as notSent: %s', async (_, thrown) => {
    const verdict = await callRail(
      railOf(() => {
        throw thrown
      }),
      railRequest(),
    )
    expect(verdict).toMatchObject({ kind: 'notSent', code: RAIL_RESULT_CODES.notSent })
  })

  it('is described by code, message and cause', async () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    const verdict = await callRail(
      railOf(() => {
        throw new NotSentError('no connection', { cause })
      }),
      railRequest(),
    )
    expect(verdict.message).toBe('NOT_SENT: no connection (ECONNREFUSED: connect ECONNREFUSED)')
  })

  it('has card numbers redacted', async () => {
    const verdict = await callRail(
      railOf(() => {
        throw new Error('card 4111 1111 1111 1111 declined')
      }),
      railRequest(),
    )
    expect(JSON.stringify(verdict)).not.toContain('1111')
  })

  it.each(['terminal', 'retryable', 'unknown'] as const)(
    'is redacted, and so are card numbers in the message of an answer with outcome “%s”',
    async (outcome) => {
      const verdict = await callRail(
        railOf(() => Promise.resolve({ outcome, code: 'C1', message: 'card 4111 1111 1111 1111 says no' })),
        railRequest(),
      )
      expect(verdict.message).toContain('says no')
      expect(JSON.stringify(verdict)).not.toContain('1111')
    },
  )
})

describe('a rail call', () => {
  it('ends with unknown at the deadline although the rail ignores its signal', async () => {
    const rail = railOf(() => new Promise(() => {}), { timeoutMs: 50 })
    const verdict = await callRail(rail, railRequest())
    expect(verdict).toMatchObject({
      kind: 'unknown',
      code: RAIL_RESULT_CODES.timeout,
      message: 'no answer within 50 ms',
    })
    expect(verdict.latencyMs).toBeGreaterThanOrEqual(49)
    expect(verdict.latencyMs).toBeLessThan(5_000)
  })

  it('aborts its signal at the deadline', async () => {
    let aborted: unknown
    const rail = railOf(
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => {
            aborted = signal.reason
            reject(signal.reason)
          })
        }),
      { timeoutMs: 20 },
    )
    expect(await callRail(rail, railRequest())).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.timeout })
    expect(aborted).toMatchObject({ name: 'TimeoutError' })
  })

  it('is notSent if the aborted rail throws NotSentError', async () => {
    const rail = railOf(
      (_, { signal }) =>
        new Promise((_resolve, reject) => {
          signal.addEventListener('abort', () => reject(new NotSentError('still waiting for a connection')))
        }),
      { timeoutMs: 20 },
    )
    expect((await callRail(rail, railRequest())).kind).toBe('notSent')
  })

  it("ends with unknown when the caller's signal aborts", async () => {
    const controller = new AbortController()
    const verdict = callRail(
      railOf(() => new Promise(() => {})),
      railRequest(),
      { signal: controller.signal },
    )
    controller.abort()
    expect(await verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.aborted })
  })

  it('is notSent and does not start if its signal is already aborted', async () => {
    let calls = 0
    const rail = railOf(() => {
      calls += 1
      return { outcome: 'success', reference: 'r' }
    })
    expect((await callRail(rail, railRequest(), { signal: AbortSignal.abort() })).kind).toBe('notSent')
    expect(calls).toBe(0)
  })

  it('leaves no listener on the signal of the worker', async () => {
    const { signal } = new AbortController()
    for (let call = 0; call < 20; call += 1) await callRail(answering({}), railRequest(), { signal })
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  it('ends at the deadline, even if 1,000 calls hang', async () => {
    const rail = railOf(() => new Promise(() => {}), { timeoutMs: 50 })
    const verdicts = await Promise.all(Array.from({ length: 1_000 }, () => callRail(rail, railRequest())))
    expect(new Set(verdicts.map(({ kind }) => kind))).toEqual(new Set(['unknown']))
  })
})

async function lateVerdict(rail: LoadedRail): Promise<RailResult | undefined> {
  const late: RailResult[] = []
  const verdict = await callRail(rail, railRequest(), { onLateAnswer: (given) => late.push(given) })
  expect(verdict).toMatchObject({ kind: 'unknown', code: RAIL_RESULT_CODES.timeout })
  expect(late).toEqual([])
  await sleep(150)
  expect(late.length).toBeLessThanOrEqual(1)
  return late[0]
}

describe('a rail answer after the deadline', () => {
  const SHORT = { timeoutMs: 20 }

  it('is passed to onLateAnswer, classified like an answer in time', async () => {
    const late = await lateVerdict(answering(sleep(80, { outcome: 'success', reference: 'r-late' }), SHORT))
    expect(late).toMatchObject({ kind: 'success', reference: 'r-late' })
    expect(late?.latencyMs).toBeGreaterThanOrEqual(50)
  })

  it('is passed to onLateAnswer if it is NotSentError', async () => {
    const rail = railOf(async () => {
      await sleep(80)
      throw new NotSentError('no connection in all this time')
    }, SHORT)
    expect((await lateVerdict(rail))?.kind).toBe('notSent')
  })

  it('is dropped if it is malformed', async () => {
    expect(await lateVerdict(answering(sleep(80, '<html>'), SHORT))).toBeUndefined()
  })

  it('is dropped if it is an error other than NotSentError', async () => {
    const rail = railOf(async () => {
      await sleep(80)
      throw new Error('reset')
    }, SHORT)
    expect(await lateVerdict(rail)).toBeUndefined()
  })

  it('is dropped if the caller gives no onLateAnswer', async () => {
    const rail = railOf(
      async () => {
        await sleep(40)
        throw new Error('reset')
      },
      { timeoutMs: 10 },
    )
    expect((await callRail(rail, railRequest())).kind).toBe('unknown')
    await sleep(80)
  })
})

function asked(status: unknown, given: object = {}) {
  return answering({}, { onUnknown: 'inquire', queryStatus: () => status, ...given })
}

describe('inquireRail', () => {
  it.each([
    [
      { outcome: 'success', reference: 'r-1' },
      { kind: 'success', reference: 'r-1', code: 'OK' },
    ],
    [{ outcome: 'success' }, { kind: 'unknown', code: RAIL_RESULT_CODES.noReference }],
    [{ outcome: 'terminal' }, { kind: 'terminal', code: RAIL_RESULT_CODES.terminal }],
    [
      { outcome: 'terminal', code: 'NO' },
      { kind: 'terminal', code: 'NO', railCode: 'NO' },
    ],
    [{ outcome: 'absent' }, { kind: 'absent', code: RAIL_RESULT_CODES.absent }],
    [{ outcome: 'unknown' }, { kind: 'unknown', code: RAIL_RESULT_CODES.unknown }],
    [
      { outcome: 'unknown', retryAfterMs: 3_000 },
      { kind: 'unknown', code: RAIL_RESULT_CODES.unknown, retryAfterMs: 3_000 },
    ],
    [
      { outcome: 'retryable', code: 'LATER' },
      { kind: 'unknown', code: RAIL_RESULT_CODES.malformed, railCode: 'LATER' },
    ],
    [undefined, { kind: 'unknown', code: RAIL_RESULT_CODES.malformed }],
  ])('classifies the rail’s status %j by its outcome', async (status, verdict) => {
    expect(await inquireRail(asked(status), railRequest())).toEqual({ ...verdict, latencyMs: expect.any(Number) })
  })

  it.each([
    [{ outcome: 'absent', code: 'GONE' }, 'absent'],
    [{ outcome: 'absent' }, 'absent'],
    [{ outcome: 'absent', code: 'NO' }, 'unknown'],
    [{ outcome: 'absent', code: 'NEW' }, 'unknown'],
    [{ outcome: 'terminal', code: 'NO' }, 'terminal'],
    [{ outcome: 'terminal', code: 'OK' }, 'unknown'],
  ])('classifies %j as %s with a table of codes', async (status, kind) => {
    expect((await inquireRail(asked(status, { codes: CODES }), railRequest())).kind).toBe(kind)
  })

  it.each([
    [
      'throws',
      () => {
        throw new Error('x')
      },
    ],
    [
      'was not sent',
      () => {
        throw new NotSentError('x')
      },
    ],
    ['hangs', () => new Promise(() => {})],
  ])('returns unknown if the inquiry %s', async (_, queryStatus) => {
    const rail = answering({}, { queryStatus, timeoutMs: 30 })
    expect((await inquireRail(rail, railRequest())).kind).toBe('unknown')
  })

  it('returns unknown for a rail without queryStatus', async () => {
    expect(await inquireRail(answering({}), railRequest())).toMatchObject({
      kind: 'unknown',
      code: RAIL_RESULT_CODES.notAskable,
    })
  })
})
