import type { JsonObject } from '../core/index.js'
import { isLeaseLostError } from '../db/index.js'
import {
  callRail,
  inquireRail,
  validatePayload,
  VERDICT_CODES,
  type LoadedRail,
  type OpenedPayload,
  type RailRequest,
  type RailVerdict,
  type StatusVerdict,
} from '../rails/index.js'
import type { Flight } from './Flight.js'
import type { AttemptOutcome, ClaimedItem } from './types.js'

/** What is to be done with a leased item after everything that could be learned about it was learned. */
export type Landing =
  | { readonly kind: 'complete'; readonly outcome: AttemptOutcome }
  /** It will not be dispatched: a person must look. */
  | { readonly kind: 'hold'; readonly reason: string }
  /** Nothing was done with it, and another may have it. */
  | { readonly kind: 'release' }
  /** It belongs to someone else now, and nothing was learned. */
  | { readonly kind: 'lost' }

export interface CarryTools {
  /** Marks that the call begins, for rails whose unknown outcomes go to a person. */
  readonly begin: (flight: Flight) => Promise<void>
  readonly onCalled: (flight: Flight, verdict: RailVerdict) => void
  readonly onInquired: (flight: Flight, answer: StatusVerdict) => void
  /** A rail that answered after its deadline: evidence, if it is any. */
  readonly onLateAnswer: (flight: Flight, outcome: AttemptOutcome) => void
  /** How much of the lease must be left for a call to start. */
  readonly leaseNeededMs: (rail: LoadedRail) => number
  /** Since the claim, by this process's monotonic clock. */
  readonly sinceClaimMs: (flight: Flight) => number
}

/**
 * One leased item, carried to its rail at most once. Never resends what may have been paid: an item of unknown outcome is
 * asked about, or sent again only where the rail is idempotent under the same reference, or held, as the rail declares.
 */
export async function carryItem(flight: Flight, rail: LoadedRail, tools: CarryTools): Promise<Landing> {
  const { item } = flight
  // A late success comes first: it completes the item without a call, so neither repeated expiries nor the ceiling matter.
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
  // A payload that cannot be read is neither sent nor asked about, and it is not failed either: a person may have the key.
  // Most rails encrypt nothing, and pay nothing for those that do.
  const opened = rail.fields.length === 0 ? asItIs(item) : await rail.openPayload(item)
  if (!opened.ok) return { kind: 'hold', reason: opened.reason }
  const { payload } = opened
  // Set when it is certain that no earlier attempt paid: then a failure may be called a failure again.
  let settled = false
  if (item.outcomeUnknown && rail.onUnknown === 'inquire') {
    const answer = await inquire(flight, rail, tools, payload)
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
  if (flight.trustedForMs < tools.leaseNeededMs(rail)) return { kind: 'release' }
  if (rail.onUnknown === 'hold') {
    try {
      await tools.begin(flight)
    } catch (error) {
      if (isLeaseLostError(error)) return { kind: 'lost' }
      throw error
    }
  }
  flight.callBegins(rail.timeoutMs)
  const verdict = await callRail(rail, requestFor(flight, payload), {
    signal: flight.signal,
    onLateAnswer: (answer) => tools.onLateAnswer(flight, outcomeOf(item, rail, answer, settled)),
  })
  tools.onCalled(flight, verdict)
  return { kind: 'complete', outcome: outcomeOf(item, rail, verdict, settled) }
}

function asItIs({ payload }: ClaimedItem): OpenedPayload {
  return { ok: true, payload }
}

/** Asks the rail what became of an earlier attempt. `absent`: it surely never arrived, and may be sent. */
async function inquire(
  flight: Flight,
  rail: LoadedRail,
  tools: CarryTools,
  payload: JsonObject,
): Promise<Landing | 'absent'> {
  const { item } = flight
  flight.callBegins(rail.timeoutMs)
  const answer = await inquireRail(rail, requestFor(flight, payload), { signal: flight.signal })
  tools.onInquired(flight, answer)
  const told = { ...toldBy(answer), action: 'inquired' } as const
  switch (answer.kind) {
    case 'success':
      return complete(item, { ...told, state: 'DISPATCHED', railReference: answer.reference })
    case 'terminal':
      return complete(item, { ...told, state: 'FAILED', errorCode: answer.code, outcomeUnknown: false })
    case 'absent': {
      // A paused worker's request may still be on its way: absence counts only when it has had time to arrive.
      if (sinceLastAttemptMs(flight, tools) >= rail.settleMs) return 'absent'
      return complete(item, {
        ...told,
        state: 'RETRYABLE',
        errorCode: 'INQUIRY_TOO_EARLY',
        // All of it, not the rest: this inquiry is the last attempt when the item comes back, and would be too recent again.
        retryDelaySeconds: Math.ceil(rail.settleMs / 1_000),
      })
    }
    case 'unknown':
      return complete(item, {
        ...told,
        ...retryAfter(answer),
        state: 'RETRYABLE',
        errorCode: answer.code,
        ...holdForReference(answer),
      })
  }
}

/** By the database's clock up to the claim, by ours from then on. An attempt without an end counts as just ended. */
function sinceLastAttemptMs(flight: Flight, tools: CarryTools): number {
  const ended = flight.item.evidence?.lastAttempt?.completedAt
  if (ended === undefined || ended === null) return 0
  return flight.item.claimedAt.getTime() - ended.getTime() + tools.sinceClaimMs(flight)
}

function outcomeOf(item: ClaimedItem, rail: LoadedRail, verdict: RailVerdict, settled: boolean): AttemptOutcome {
  const { outboxId, leaseToken } = item
  const { railCode, errorMessage, latencyMs } = toldBy(verdict)
  // Nearly all are this one, and it is written out: putting objects together is what takes time here.
  if (verdict.kind === 'success') {
    return {
      outboxId,
      leaseToken,
      state: 'DISPATCHED',
      railReference: verdict.reference,
      railCode,
      errorMessage,
      latencyMs,
    }
  }
  const told = { outboxId, leaseToken, railCode, errorMessage, latencyMs }
  // A definitive inquiry spoke for every attempt before this one.
  const cleared = settled ? { outcomeUnknown: false } : {}
  switch (verdict.kind) {
    case 'terminal':
      // An idempotent rail's refusal speaks for every attempt under the same reference.
      return {
        ...told,
        ...(rail.onUnknown === 'resend' ? { outcomeUnknown: false } : cleared),
        state: 'FAILED',
        errorCode: verdict.code,
      }
    case 'retryable':
      return { ...told, ...cleared, ...retryAfter(verdict), state: 'RETRYABLE', errorCode: verdict.code }
    case 'notSent':
      return {
        ...told,
        ...cleared,
        ...retryAfter(verdict),
        state: 'RETRYABLE',
        errorCode: verdict.code,
        action: 'not_sent',
      }
    case 'unknown':
      return {
        ...told,
        ...retryAfter(verdict),
        state: 'RETRYABLE',
        errorCode: verdict.code,
        outcomeUnknown: true,
        ...(rail.onUnknown === 'hold' ? { holdReason: 'OUTCOME_UNKNOWN' } : {}),
        ...holdForReference(verdict),
      }
  }
}

/** What the rail said, as the ledger keeps it. */
function toldBy({ railCode, message, latencyMs }: RailVerdict | StatusVerdict): {
  readonly railCode: string | null
  readonly errorMessage: string | null
  readonly latencyMs: number
} {
  return { railCode: railCode ?? null, errorMessage: message ?? null, latencyMs }
}

/** A rail that paid under an unusable reference would answer the same again: two people record the reference instead. */
function holdForReference({ code }: RailVerdict | StatusVerdict): { readonly holdReason?: string } {
  return code === VERDICT_CODES.badReference ? { holdReason: code } : {}
}

function retryAfter({ retryAfterMs }: RailVerdict | StatusVerdict): { readonly retryDelaySeconds?: number } {
  return retryAfterMs === undefined ? {} : { retryDelaySeconds: Math.ceil(retryAfterMs / 1_000) }
}

function requestFor({ item, trustedUntil, trace }: Flight, payload: JsonObject): RailRequest {
  const request = {
    reference: item.outboxId,
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

function complete(item: ClaimedItem, outcome: Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>): Landing {
  return { kind: 'complete', outcome: { outboxId: item.outboxId, leaseToken: item.leaseToken, ...outcome } }
}

/** A payload that killed its worker this many times in a row is not given a fourth. */
const EXPIRIES_MAX = 3
