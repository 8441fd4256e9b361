import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  NotSentError,
  RailContractError,
  readBook,
  runRailContract,
  simulatedRail,
  type RailContractOptions,
  type Rail,
  type RailDeclaration,
  type RailAnswer,
  type RailPayment,
  type RailRequest,
} from '../../libs/rails/index.js'
import { PAYABLE } from '../support/railRequest.js'

/** Sandbox of a rail, with an adapter that keeps every rule. */
class Sandbox {
  readonly payments = new Map<string, string[]>()

  readonly rail: Rail = {
    type: 'sandbox',
    onUnknown: 'resend',
    timeoutMs: 2_000,
    dispatch: (request, { signal }) => {
      if (signal.aborted) throw new NotSentError('aborted')
      return this.pay(request)
    },
    settlementDays: 0,
    accountOf: () => 'DE89370400440532013000',
    listPayments: () => this.list(),
    queryStatus: ({ reference }) => {
      const [first] = this.payments.get(reference) ?? []
      return first === undefined ? { outcome: 'absent' } : { outcome: 'success', reference: first }
    },
  }

  readonly options: RailContractOptions = {
    payload: PAYABLE,
    refusedPayload: { ...PAYABLE, amount: '999999.00' },
    effectsOf: (reference) => this.payments.get(reference)?.length ?? 0,
    abortPatienceMs: 100,
  }

  async *list(): AsyncGenerator<RailPayment> {
    const { amount, currency } = PAYABLE
    for (const [reference, paid] of this.payments) {
      for (const bankReference of paid) {
        yield { reference: reference.replaceAll('-', ''), bankReference, amount, currency, bookedOn: '2026-11-17' }
      }
    }
  }

  pay({ reference, payload }: RailRequest, once = true): RailAnswer {
    if (payload['amount'] === '999999.00') return { outcome: 'terminal', code: 'LIMIT', message: 'over the limit' }
    const earlier = this.payments.get(reference) ?? []
    if (earlier.length === 0 || !once) earlier.push(`r-${this.payments.size}-${earlier.length}`)
    this.payments.set(reference, earlier)
    return { outcome: 'success', reference: earlier.at(-1) ?? '' }
  }
}

/** Returns the rules that an adapter breaks. */
async function brokenRules(
  sandbox: Sandbox,
  rail: Partial<RailDeclaration>,
  options: Partial<RailContractOptions> = {},
): Promise<string[]> {
  try {
    await runRailContract({ ...sandbox.rail, ...rail }, { ...sandbox.options, ...options })
    return []
  } catch (error) {
    if (!(error instanceof RailContractError)) throw error
    return error.results.filter(({ ok }) => !ok).map(({ rule }) => rule)
  }
}

describe('runRailContract', () => {
  it('checks every rule, and accepts an adapter that keeps all of them', async () => {
    const { rail, options } = new Sandbox()
    const results = await runRailContract(rail, options)
    expect(results).toHaveLength(13)
    expect(results.filter(({ ok, skipped }) => !ok || skipped)).toEqual([])
  })

  it('accepts the simulated rail', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-rail-book-'))
    const bookFile = join(folder, 'rail.ndjson')
    const rail = simulatedRail({ onUnknown: 'resend', bookFile })
    const effectsOf = async (reference: string) => (await readBook(bookFile)).get(reference)?.count ?? 0
    const refusedPayload = { ...PAYABLE, simulate: 'terminal' }
    await expect(runRailContract(rail, { payload: PAYABLE, refusedPayload, effectsOf })).resolves.toHaveLength(13)
    await rail.close?.()
    await rm(folder, { recursive: true })
  })

  it('reports the reason for each skipped rule', async () => {
    const sandbox = new Sandbox()
    const rail: Rail = { type: 'unaskable', onUnknown: 'hold', dispatch: (request) => sandbox.pay(request) }
    const results = await runRailContract(rail, { payload: PAYABLE })
    expect(results.filter(({ skipped }) => skipped).map(({ detail }) => detail)).toEqual([
      'it needs effectsOf or queryStatus',
      'it needs effectsOf',
      'only where onUnknown is "resend"',
      'the rail has no queryStatus',
      'the rail has no queryStatus',
      'it needs effectsOf or queryStatus',
      'it needs refusedPayload',
      'it needs refusedPayload',
      'the rail has no listPayments',
      'the rail has no accountOf',
    ])
  })

  it('refuses an invalid declaration before any call', async () => {
    const { rail, options } = new Sandbox()
    await expect(runRailContract({ ...rail, timeoutMs: 0 }, options)).rejects.toThrow('timeoutMs')
  })

  it('throws one error with all broken rules', async () => {
    const { rail, options } = new Sandbox()
    const broken = runRailContract({ ...rail, queryStatus: () => ({ outcome: 'unknown' }) }, options)
    await expect(broken).rejects.toMatchObject({
      code: 'RAIL_CONTRACT_BROKEN',
      errors: [
        { message: expect.stringContaining('expected success') },
        { message: expect.stringContaining('expected absent') },
      ],
      message: expect.stringMatching(/^the rail "sandbox" breaks 2 rules of the contract\n- a paid reference is found/),
    })
  })

  describe('faulty adapters', () => {
    it('are reported if the sample payload fails their checks', async () => {
      const payload = { ...PAYABLE, amount: '10.001' }
      expect(await brokenRules(new Sandbox(), {}, { payload })).toContain(
        'the sample payload passes the checks before a dispatch',
      )
    })

    it('are reported for a success without a reference', async () => {
      const rules = await brokenRules(new Sandbox(), { dispatch: () => ({ outcome: 'success', reference: ' ' }) })
      expect(rules).toContain('a payment succeeds with a usable reference')
    })

    it('are reported if they use another reference than that of the request', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request) => sandbox.pay({ ...request, reference: `mine-${Math.random()}` })
      expect(await brokenRules(sandbox, { dispatch })).toContain('our reference reaches the rail')
      expect(await brokenRules(sandbox, { dispatch }, { effectsOf: () => 1 })).toContain(
        'a paid reference is found, under the reference of the payment',
      )
    })

    it('are reported if they send a payment twice', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request) => {
        sandbox.pay(request, false)
        return sandbox.pay(request, false)
      }
      expect(await brokenRules(sandbox, { dispatch })).toContain('a payment moves money once')
    })

    it('are reported if a resend pays again', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request) => sandbox.pay(request, false)
      expect(await brokenRules(sandbox, { dispatch })).toContain(
        'sending again under the same reference pays nothing more',
      )
    })

    it('are reported if a resend pays again but answers with the first rail reference', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request, { signal }) => {
        if (signal.aborted) throw new NotSentError('aborted')
        const answer = sandbox.pay(request, false)
        return answer.outcome === 'success' ? { ...answer, reference: 'r-0-0' } : answer
      }
      expect(await brokenRules(sandbox, { dispatch })).toContain(
        'sending again under the same reference pays nothing more',
      )
    })

    it('are reported if an inquiry finds a reference never sent', async () => {
      const rules = await brokenRules(new Sandbox(), { queryStatus: () => ({ outcome: 'success', reference: 'r' }) })
      expect(rules).toContain('a reference never sent is absent')
    })

    it('are reported if a call ignores its signal', async () => {
      const sandbox = new Sandbox()
      let calls = 0
      const dispatch: Rail['dispatch'] = (request, { signal }) => {
        calls += 1
        if (signal.aborted) throw new NotSentError('aborted')
        const answer = sandbox.pay(request)
        return new Promise((resolve) => {
          setTimeout(() => resolve(answer), 300)
        })
      }
      expect(await brokenRules(sandbox, { dispatch })).toEqual(['an aborted call ends soon'])
      expect(calls).toBeGreaterThan(5)
    })

    it('are reported if a call pays although it was aborted before it began', async () => {
      const sandbox = new Sandbox()
      expect(await brokenRules(sandbox, { dispatch: (request) => sandbox.pay(request) })).toEqual([
        'a call that is aborted before it begins pays nothing',
      ])
    })

    it('are reported if they classify a refusal as retryable', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request, { signal }) => {
        if (signal.aborted) throw new NotSentError('aborted')
        const answer = sandbox.pay(request)
        return answer.outcome === 'terminal' ? { ...answer, outcome: 'retryable' } : answer
      }
      expect(await brokenRules(sandbox, { dispatch })).toEqual(['a refusal is terminal, and pays nothing'])
    })

    it('are reported if a refusal quotes the account', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request, { signal }) => {
        if (signal.aborted) throw new NotSentError('aborted')
        const answer = sandbox.pay(request)
        const message = `no such account: ${PAYABLE.destination}`
        return answer.outcome === 'terminal' ? { ...answer, message } : answer
      }
      expect(await brokenRules(sandbox, { dispatch })).toEqual([
        'the text of a refusal holds no account, card or credential',
      ])
    })

    it('are reported for codes that are not in their table', async () => {
      const rules = await brokenRules(new Sandbox(), { codes: { OTHER: 'terminal' } })
      expect(rules).toEqual(['a refusal is terminal, and pays nothing'])
    })

    const LISTED = 'the list of payments has a payment once, with our reference and amount'

    it.each<[string, (payment: RailPayment) => readonly RailPayment[]]>([
      ['omits a payment', () => []],
      ['repeats a payment', (payment) => [payment, payment]],
      ['has another reference', (payment) => [{ ...payment, reference: payment.bankReference }]],
      ['has no id of an entry', (payment) => [{ ...payment, bankReference: '' }]],
      ['has a date with a time', (payment) => [{ ...payment, bookedOn: '2026-11-17T08:00:00Z' }]],
      ['has another amount', (payment) => [{ ...payment, amount: '10.01' }]],
      ['has another currency', (payment) => [{ ...payment, currency: 'USD' }]],
    ])('are reported if their list of payments %s', async (_, change) => {
      const sandbox = new Sandbox()
      async function* listPayments(): AsyncGenerator<RailPayment> {
        for await (const payment of sandbox.list()) yield* change(payment)
      }
      expect(await brokenRules(sandbox, { listPayments })).toEqual([LISTED])
    })

    it('are reported if accountOf returns no account for the sample payload', async () => {
      expect(await brokenRules(new Sandbox(), { accountOf: () => '' })).toEqual(['the sample payload has an account'])
    })

    it('are reported if they change the request', async () => {
      const sandbox = new Sandbox()
      const dispatch: Rail['dispatch'] = (request) => {
        Object.assign(request.payload, { seen: true })
        return sandbox.pay(request)
      }
      expect(await brokenRules(sandbox, { dispatch })).toContain('a payment succeeds with a usable reference')
    })
  })
})
