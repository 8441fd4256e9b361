import { SymphonyError, redact, systemClock } from '../../core/index.js'
import { inquireRail } from '../callRail.js'
import { loadRail } from '../loadRails.js'
import type { RailDeclaration, RailPayment } from '../types.js'
import { validatePayload } from '../validatePayload.js'
import { withDeadline } from '../withDeadline.js'
import { RuleSkipped, Sandbox, type RailContractOptions, fail, skip } from './Sandbox.js'

export interface RuleResult {
  readonly rule: string
  readonly ok: boolean
  readonly detail: string
  /** Whether the rule does not apply or could not be checked (`detail` has the reason). Then `ok` means nothing. */
  readonly skipped?: true
}

/** Thrown when an adapter breaks the contract. `results` has every rule, `errors` one error per broken rule. */
export class RailContractError extends SymphonyError {
  readonly results: readonly RuleResult[]
  readonly errors: readonly Error[]

  constructor(type: string, results: readonly RuleResult[]) {
    const broken = results.filter(({ ok }) => !ok)
    const lines = broken.map(({ rule, detail }) => `- ${rule}: ${detail}`)
    super(
      'RAIL_CONTRACT_BROKEN',
      [`the rail "${type}" breaks ${broken.length} rules of the contract`, ...lines].join('\n'),
    )
    this.results = results
    this.errors = broken.map(({ rule, detail }) => new Error(`${rule}: ${detail}`))
  }
}

/**
 * Checks an adapter against Symphony's requirements with real calls. Run it against a sandbox, from any test framework.
 * Returns the result of every rule, or throws a `RailContractError` if one is broken.
 */
export async function runRailContract(
  rail: RailDeclaration<string, object>,
  options: RailContractOptions,
): Promise<RuleResult[]> {
  const loaded = loadRail(rail)
  const results: RuleResult[] = []
  for (const { rule, check } of RULES) {
    results.push(await resultOf(rule, () => check(new Sandbox(loaded, options))))
  }
  if (results.some(({ ok }) => !ok)) throw new RailContractError(loaded.type, results)
  return results
}

async function resultOf(rule: string, check: () => Promise<string>): Promise<RuleResult> {
  try {
    return { rule, ok: true, detail: await check() }
  } catch (error) {
    const detail = error instanceof Error ? error.message : String(error)
    return error instanceof RuleSkipped ? { rule, ok: true, detail, skipped: true } : { rule, ok: false, detail }
  }
}

interface Rule {
  readonly rule: string
  readonly check: (sandbox: Sandbox) => Promise<string>
}

const RULES: readonly Rule[] = [
  { rule: 'the sample payload passes the checks before a dispatch', check: samplePasses },
  { rule: 'a payment succeeds with a usable reference', check: paysWithReference },
  { rule: 'our reference reaches the rail', check: referenceArrives },
  { rule: 'a payment moves money once', check: paysOnce },
  { rule: 'sending again under the same reference pays nothing more', check: resendPaysOnce },
  { rule: 'a paid reference is found, under the reference of the payment', check: paidIsFound },
  { rule: 'a reference never sent is absent', check: unsentIsAbsent },
  { rule: 'an aborted call ends soon', check: abortEnds },
  { rule: 'a call that is aborted before it begins pays nothing', check: abortedPaysNothing },
  { rule: 'a refusal is terminal, and pays nothing', check: refusalIsTerminal },
  { rule: 'the text of a refusal holds no account, card or credential', check: refusalHoldsNoSecret },
  { rule: 'the list of payments has a payment once, with our reference and amount', check: paymentIsListed },
  { rule: 'the sample payload has an account', check: hasAccount },
]

async function samplePasses({ rail, payload }: Sandbox): Promise<string> {
  const check = await validatePayload(rail, payload)
  return check.ok ? 'it passes' : fail(`${check.code}, ${check.message}`)
}

async function paysWithReference(sandbox: Sandbox): Promise<string> {
  const { reference } = await sandbox.pay(sandbox.request())
  return `paid as ${reference}`
}

async function referenceArrives(sandbox: Sandbox): Promise<string> {
  const request = sandbox.request()
  await sandbox.pay(request)
  if (sandbox.effectsOf !== undefined) {
    return (await sandbox.effectsOf(request.reference)) > 0
      ? 'the sandbox knows it'
      : fail('the sandbox has no payment under our reference')
  }
  if (sandbox.rail.queryStatus === undefined) return skip('it needs effectsOf or queryStatus')
  const { kind } = await inquireRail(sandbox.rail, request)
  return kind === 'success' ? 'the rail finds it' : fail(`expected success for a paid reference, got ${kind}`)
}

async function paysOnce(sandbox: Sandbox): Promise<string> {
  const request = sandbox.request()
  await sandbox.pay(request)
  return sandbox.expectEffects(request, 1)
}

async function resendPaysOnce(sandbox: Sandbox): Promise<string> {
  if (sandbox.rail.onUnknown !== 'resend') return skip('only where onUnknown is "resend"')
  const request = sandbox.request()
  const first = await sandbox.pay(request)
  const second = await sandbox.pay({ ...request, attempt: request.attempt + 1 })
  if (first.reference !== second.reference) {
    return fail(`the second answer names another payment: ${second.reference} instead of ${first.reference}`)
  }
  return sandbox.effectsOf === undefined ? 'both answers name one payment' : sandbox.expectEffects(request, 1)
}

async function paidIsFound(sandbox: Sandbox): Promise<string> {
  if (sandbox.rail.queryStatus === undefined) return skip('the rail has no queryStatus')
  const request = sandbox.request()
  const paid = await sandbox.pay(request)
  const found = await inquireRail(sandbox.rail, request)
  if (found.kind !== 'success') return fail(`expected success, got ${found.kind} (${found.code})`)
  return found.reference === paid.reference
    ? `found as ${found.reference}`
    : fail(`found as ${found.reference}, but it was paid as ${paid.reference}`)
}

async function unsentIsAbsent(sandbox: Sandbox): Promise<string> {
  if (sandbox.rail.queryStatus === undefined) return skip('the rail has no queryStatus')
  const { kind, code } = await inquireRail(sandbox.rail, sandbox.request())
  return kind === 'absent' ? 'absent' : fail(`expected absent, got ${kind} (${code})`)
}

async function abortEnds(sandbox: Sandbox): Promise<string> {
  const controller = new AbortController()
  const call = settled(async () => sandbox.rail.dispatch(sandbox.request(), { signal: controller.signal }))
  controller.abort()
  const { stoppedBy } = await withDeadline(() => call, { timeoutMs: sandbox.abortPatienceMs })
  return stoppedBy === undefined
    ? 'it ended'
    : fail(`still running ${sandbox.abortPatienceMs} ms after its signal aborted`)
}

async function abortedPaysNothing(sandbox: Sandbox): Promise<string> {
  const request = sandbox.request()
  await settled(async () => sandbox.rail.dispatch(request, { signal: AbortSignal.abort() }))
  if (sandbox.effectsOf !== undefined) return sandbox.expectEffects(request, 0)
  if (sandbox.rail.queryStatus === undefined) return skip('it needs effectsOf or queryStatus')
  const { kind } = await inquireRail(sandbox.rail, request)
  return kind === 'absent' ? 'absent' : fail(`expected absent for a call aborted before its start, got ${kind}`)
}

async function refusalIsTerminal(sandbox: Sandbox): Promise<string> {
  const request = sandbox.refusedRequest()
  const { kind, code } = await sandbox.call(request)
  if (kind !== 'terminal') return fail(`expected terminal, got ${kind} (${code})`)
  return sandbox.effectsOf === undefined ? `terminal (${code})` : sandbox.expectEffects(request, 0)
}

async function refusalHoldsNoSecret(sandbox: Sandbox): Promise<string> {
  const request = sandbox.refusedRequest()
  const answer = await sandbox.rail.dispatch(request, { signal: AbortSignal.timeout(sandbox.rail.timeoutMs) })
  const text = 'message' in answer ? (answer.message ?? '') : ''
  if (text === '') return 'it has no text'
  const { destination } = request.payload
  const isQuoted = typeof destination === 'string' && text.includes(destination)
  return isQuoted || redact(text) !== text
    ? fail('the text holds data that Symphony redacts; remove it in the adapter')
    : 'it holds none'
}

async function paymentIsListed(sandbox: Sandbox): Promise<string> {
  const { rail } = sandbox
  if (rail.listPayments === undefined) return skip('the rail has no listPayments')
  const request = sandbox.request()
  await sandbox.pay(request)
  const now = systemClock.now().getTime()
  const period = { from: new Date(now - DAY_MS), to: new Date(now + DAY_MS) }
  const listed: RailPayment[] = []
  for await (const payment of rail.listPayments(period, { signal: AbortSignal.timeout(rail.timeoutMs) })) {
    if (payment.reference === request.reference || payment.reference === request.compactReference) listed.push(payment)
  }
  const [first] = listed
  if (first === undefined || listed.length > 1) return fail(`expected one entry, got ${listed.length}`)
  if (typeof first.bankReference !== 'string' || first.bankReference === '') return fail('expected a bankReference')
  if (!DATE.test(first.bookedOn)) return fail('expected bookedOn as YYYY-MM-DD')
  const { amount, currency } = request.payload
  return first.amount === amount && first.currency === currency
    ? 'it is listed'
    : fail('the entry has another amount or currency than the payload')
}

async function hasAccount({ rail, payload }: Sandbox): Promise<string> {
  if (rail.accountOf === undefined) return skip('the rail has no accountOf')
  const account = rail.accountOf(payload)
  return typeof account === 'string' && account !== '' ? `paid from ${redact(account)}` : fail('expected text')
}

const DAY_MS = 86_400_000
const DATE = /^\d{4}-\d{2}-\d{2}$/

async function settled(call: () => Promise<unknown>): Promise<void> {
  try {
    await call()
  } catch {
    // Ignores an error: only the end of the call matters.
  }
}
