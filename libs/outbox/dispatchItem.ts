import { compactUuid, type JsonObject } from '../core/index.js'
import { isLeaseLostError } from '../db/index.js'
import {
  callRail,
  inquireRail,
  validatePayload,
  RAIL_RESULT_CODES,
  type DispatchOptions,
  type LoadedRail,
  type RailRequest,
  type RailResult,
  type StatusResult,
} from '../rails/index.js'
import type { HandlerTransaction } from './HandlerTransaction.js'
import type { LeasedItem } from './LeasedItem.js'
import { isOutcomeMessage, outcomeSchema } from './paymentOutcome.js'
import type { AttemptOutcome, ClaimedItem } from './types.js'

/** Next step for a leased item after its dispatch. */
export type DispatchResult =
  | {
      readonly kind: 'complete'
      readonly outcome: AttemptOutcome
      /** Open transaction of a handler that succeeded. The outcome is recorded in it. */
      readonly transaction?: HandlerTransaction
    }
  /** The item is not dispatched: an operator must decide. */
  | { readonly kind: 'hold'; readonly reason: string }
  /** Nothing was sent. Another worker may lease the item. */
  | { readonly kind: 'release' }
  /** The lease is lost, and nothing was sent. */
  | { readonly kind: 'lost' }

export interface DispatchHooks {
  /** Writes the dispatch mark, for rails whose unknown outcomes an operator decides. */
  begin(leased: LeasedItem): Promise<void>
  onCalled(leased: LeasedItem, result: RailResult): void
  onInquired(leased: LeasedItem, answer: StatusResult): void
  /** Called when a rail answers after its deadline, with the outcome of that answer. */
  onLateAnswer(outcome: AttemptOutcome): void
  /** Returns how long the lease must still last for a call to start. */
  leaseNeededMs(rail: LoadedRail): number
  /** Creates the transaction that a topic handler may use. */
  createTransaction(): HandlerTransaction
}

/**
 * Dispatches one leased item, with at most one inquiry and one dispatch. After an unknown outcome, the rail's
 * `onUnknown` decides: inquire first, send again under the same reference, or hold.
 */
export async function dispatchItem(
  leased: LeasedItem,
  rail: LoadedRail,
  hooks: DispatchHooks,
): Promise<DispatchResult> {
  const { item } = leased
  // A late success comes first. It completes the item without a call, so repeated expiries and the retry ceiling do not
  // matter.
  const late = item.evidence?.lateOutcome
  if (late?.state === 'DISPATCHED') {
    return complete(item, {
      state: 'DISPATCHED',
      railReference: late.railReference,
      railCode: late.railCode,
      errorCode: 'LATE_OUTCOME',
      action: 'inquired',
    })
  }
  if (item.expiryStreak >= EXPIRIES_MAX) return { kind: 'hold', reason: 'REPEATED_LEASE_EXPIRY' }
  if (item.outcomeUnknown && rail.onUnknown === 'hold') return { kind: 'hold', reason: 'OUTCOME_UNKNOWN' }
  let payload = item.payload
  if (rail.fields.length > 0) {
    const opened = await rail.decryptPayload(item)
    // A payload that cannot be decrypted is held, neither sent nor failed, because an operator may have the key.
    if (!opened.ok) return { kind: 'hold', reason: opened.reason }
    payload = opened.payload
  }
  // True if an inquiry shows that no earlier attempt has paid. Then a failure of this attempt is definitive.
  let settled = false
  if (item.outcomeUnknown && rail.onUnknown === 'inquire') {
    const answer = await inquire(leased, rail, hooks, payload)
    if (answer !== 'absent') return answer
    settled = true
  }
  const checking = validatePayload(rail, payload)
  const check = checking instanceof Promise ? await checking : checking
  if (!check.ok) {
    return complete(item, {
      state: check.retryable ? 'RETRYABLE' : 'FAILED',
      errorCode: check.code,
      errorMessage: check.message,
      action: 'not_sent',
    })
  }
  if (rail.payload === outcomeSchema && !isOutcomeMessage(item)) {
    // The handler books what the message says, so a forged one could claim that a payment was paid.
    const errorMessage = 'the topic has outcomeSchema: expected an outcome that Symphony sent'
    return complete(item, { state: 'FAILED', errorCode: 'INVALID_PAYLOAD', errorMessage, action: 'not_sent' })
  }
  if (leased.trustedForMs < hooks.leaseNeededMs(rail)) return { kind: 'release' }
  if (rail.onUnknown === 'hold') {
    try {
      await hooks.begin(leased)
    } catch (error) {
      if (isLeaseLostError(error)) return { kind: 'lost' }
      throw error
    }
  }
  leased.startCall(rail.timeoutMs)
  const request = requestFor(leased, payload)
  if (!rail.money) return handleMessage(leased, rail, hooks, request, settled)
  const result = await callRail(rail, request, callOptions(leased, rail, hooks, settled))
  hooks.onCalled(leased, result)
  return { kind: 'complete', outcome: outcomeOf(item, rail, result, settled) }
}

/**
 * Calls a rail without money, whose handler may use a transaction. Only a success leaves the transaction open, to be
 * committed with the outcome. A handler that was aborted had its writes rolled back, so its success does not count, not
 * even as a late outcome.
 */
async function handleMessage(
  leased: LeasedItem,
  rail: LoadedRail,
  hooks: DispatchHooks,
  request: RailRequest,
  settled: boolean,
): Promise<DispatchResult> {
  const transaction = hooks.createTransaction()
  const { signal, onLateAnswer } = callOptions(leased, rail, hooks, settled)
  const answer = await callRail(rail, request, {
    signal,
    contextOf: (context) => transaction.contextOf(context),
    onLateAnswer: (late) => {
      if (!transaction.isUsed) onLateAnswer(late)
    },
  })
  const isRolledBack = transaction.isUsed && !transaction.isOpen
  const result: RailResult =
    answer.kind === 'success' && isRolledBack
      ? { kind: 'unknown', code: RAIL_RESULT_CODES.aborted, latencyMs: answer.latencyMs }
      : answer
  hooks.onCalled(leased, result)
  const outcome = outcomeOf(leased.item, rail, result, settled)
  if (result.kind === 'success' && transaction.isOpen) return { kind: 'complete', outcome, transaction }
  transaction.rollBack()
  return { kind: 'complete', outcome }
}

/** Builds the options outside `dispatchItem`, so that the callback keeps none of that function's variables. */
function callOptions(
  leased: LeasedItem,
  rail: LoadedRail,
  hooks: DispatchHooks,
  settled: boolean,
): Required<Pick<DispatchOptions, 'signal' | 'onLateAnswer'>> {
  return {
    signal: leased,
    onLateAnswer: (answer) => hooks.onLateAnswer(outcomeOf(leased.item, rail, answer, settled)),
  }
}

/** Asks the rail about an earlier attempt. Returns `absent` if that call never arrived, so the payment may be sent. */
async function inquire(
  leased: LeasedItem,
  rail: LoadedRail,
  hooks: DispatchHooks,
  payload: JsonObject,
): Promise<DispatchResult | 'absent'> {
  const { item } = leased
  leased.startCall(rail.timeoutMs)
  const answer = await inquireRail(rail, requestFor(leased, payload), { signal: leased })
  hooks.onInquired(leased, answer)
  const details = { ...answerDetails(answer), action: 'inquired' } as const
  switch (answer.kind) {
    case 'success':
      return complete(item, { ...details, state: 'DISPATCHED', railReference: answer.reference })
    case 'terminal':
      return complete(item, { ...details, state: 'FAILED', errorCode: answer.code, outcomeUnknown: false })
    case 'absent': {
      // The request of a suspended worker may still arrive, so absence counts only after the rail's settling time.
      if (sinceLastAttemptMs(leased) >= rail.settleMs) return 'absent'
      return complete(item, {
        ...details,
        state: 'RETRYABLE',
        errorCode: 'INQUIRY_TOO_EARLY',
        // Waits for the full settling time, because the next claim counts the time from this inquiry.
        retryDelaySeconds: Math.ceil(rail.settleMs / 1_000),
      })
    }
    case 'unknown':
      return complete(item, {
        ...details,
        ...retryAfter(answer),
        state: 'RETRYABLE',
        errorCode: answer.code,
        ...holdForReference(answer),
      })
  }
}

/**
 * Returns the time since the last attempt: by the database's clock until the claim, by the process's clock after it. An
 * attempt without an end counts as just ended.
 */
function sinceLastAttemptMs({ item, sinceClaimMs }: LeasedItem): number {
  const ended = item.evidence?.lastAttempt?.completedAt
  if (ended === undefined || ended === null) return 0
  return item.claimedAt.getTime() - ended.getTime() + sinceClaimMs
}

function outcomeOf(item: ClaimedItem, rail: LoadedRail, result: RailResult, settled: boolean): AttemptOutcome {
  const { outboxId, leaseToken } = item
  const { railCode, errorMessage, latencyMs } = answerDetails(result)
  // Lists the fields, because an object spread is slow and nearly every outcome is a success.
  if (result.kind === 'success') {
    return {
      outboxId,
      leaseToken,
      state: 'DISPATCHED',
      railReference: result.reference,
      railCode,
      errorMessage,
      latencyMs,
    }
  }
  const details = { outboxId, leaseToken, railCode, errorMessage, latencyMs }
  // A definitive inquiry settles the outcome of every earlier attempt.
  const cleared = settled ? { outcomeUnknown: false } : {}
  switch (result.kind) {
    case 'terminal':
      // The refusal of an idempotent rail settles every attempt under the same reference.
      return {
        ...details,
        ...(rail.onUnknown === 'resend' ? { outcomeUnknown: false } : cleared),
        state: 'FAILED',
        errorCode: result.code,
      }
    case 'retryable':
      return { ...details, ...cleared, ...retryAfter(result), state: 'RETRYABLE', errorCode: result.code }
    case 'notSent':
      return {
        ...details,
        ...cleared,
        ...retryAfter(result),
        state: 'RETRYABLE',
        errorCode: result.code,
        action: 'not_sent',
      }
    case 'unknown':
      return {
        ...details,
        ...retryAfter(result),
        state: 'RETRYABLE',
        errorCode: result.code,
        outcomeUnknown: true,
        ...(rail.onUnknown === 'hold' ? { holdReason: 'OUTCOME_UNKNOWN' } : {}),
        ...holdForReference(result),
      }
  }
}

function answerDetails({ railCode, message, latencyMs }: RailResult | StatusResult): {
  readonly railCode: string | null
  readonly errorMessage: string | null
  readonly latencyMs: number
} {
  return { railCode: railCode ?? null, errorMessage: message ?? null, latencyMs }
}

/**
 * Holds an item that was paid under an unusable reference. A repeated call would return the same reference, so two
 * people record the payment.
 */
function holdForReference({ code }: RailResult | StatusResult): { readonly holdReason?: string } {
  return code === RAIL_RESULT_CODES.badReference ? { holdReason: code } : {}
}

function retryAfter({ retryAfterMs }: RailResult | StatusResult): { readonly retryDelaySeconds?: number } {
  return retryAfterMs === undefined ? {} : { retryDelaySeconds: Math.ceil(retryAfterMs / 1_000) }
}

function requestFor({ item, trustedUntil, trace }: LeasedItem, payload: JsonObject): RailRequest {
  const request = {
    reference: item.outboxId,
    compactReference: compactUuid(item.outboxId),
    instructionId: item.instructionId,
    participantId: item.participantId,
    sequenceId: item.sequenceId,
    idempotencyKey: item.idempotencyKey,
    attempt: item.attemptCount + 1,
    payload,
    notAfter: trustedUntil,
  }
  return trace === undefined ? request : { ...request, ...trace }
}

function complete(item: ClaimedItem, outcome: Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>): DispatchResult {
  return { kind: 'complete', outcome: { outboxId: item.outboxId, leaseToken: item.leaseToken, ...outcome } }
}

/**
 * Consecutive expired leases after which an item is held, because its payload may crash every worker. An inquiry that
 * leaves the outcome unknown does not reset the count.
 */
const EXPIRIES_MAX = 3
