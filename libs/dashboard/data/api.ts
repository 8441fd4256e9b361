import type {
  Accepted,
  Alerts,
  Approved,
  Cancelled,
  Proof,
  Changed,
  ContradictionPage,
  Databases,
  Decided,
  Dispatch,
  DlqPage,
  HoldPage,
  HoldPlaced,
  NoteAdded,
  NoteBody,
  InboxPage,
  Instruction,
  JobBody,
  JobDefined,
  JobRunPage,
  Jobs,
  JobTriggered,
  LatencySeries,
  LeasePage,
  LimitApproved,
  LimitBody,
  LimitProposed,
  Limits,
  Me,
  OutboxCounts,
  OutboxPage,
  PauseBody,
  Pauses,
  ResolveBody,
  ReturnBody,
  RailStatisticsList,
  ReturnRecorded,
  Reviewed,
  Revived,
  Series,
  SignedOut,
  SignInMethods,
  StartedSignIn,
  Status,
  Timeline,
  TimerBody,
  TimerPage,
  TimerScheduled,
  Withdrawn,
  WorkerHistory,
  Workers,
} from '../../http/index.js'
import { request } from './client.js'

interface PageQuery {
  readonly cursor?: string
  readonly limit?: number
}

export interface PaymentFilter {
  readonly q?: string
  readonly kind?: string
  readonly state?: string
  readonly returned?: string
  readonly rail?: string
  readonly participant?: string
  /** Start and end in the format of the API. */
  readonly from?: string
  readonly to?: string
  readonly currency?: string
  readonly amountMin?: string
  readonly amountMax?: string
  readonly sort?: string
  readonly destination?: string
}

/** Start and exclusive end of a chart. */
export interface TimeRange {
  readonly from: string
  readonly to: string
}

interface SeriesFilter {
  readonly kind?: string
  readonly rail?: string
  readonly participant?: string
}

const e = encodeURIComponent

export const readSignInMethods = (signal: AbortSignal) => request<SignInMethods>('/v1/sign-in', { signal })
export const startSignIn = () => request<StartedSignIn>('/v1/sign-in', { method: 'POST' })
export const finishSession = (answer: string) => request<Me>('/v1/session', { method: 'POST', body: { answer } })
export const endSession = () => request<SignedOut>('/v1/session', { method: 'DELETE' })

export const readMe = (signal: AbortSignal) => request<Me>('/v1/me', { signal })
export const readStatus = (signal: AbortSignal) => request<Status>('/v1/status', { signal })
export const readAlerts = (signal: AbortSignal) => request<Alerts>('/v1/alerts', { signal })
export const readWorkers = (signal: AbortSignal) => request<Workers>('/v1/workers', { signal })
export const readWorkerHistory = (query: { readonly rail?: string; readonly worker?: string }, signal: AbortSignal) =>
  request<WorkerHistory>('/v1/workers/history', { query: { ...query }, signal })
export const readDatabases = (signal: AbortSignal) => request<Databases>('/v1/databases', { signal })

export const readSeries = (query: TimeRange & SeriesFilter, signal: AbortSignal) =>
  request<Series>('/v1/series', { query: { ...query }, signal })
export const readRailStatistics = (query: TimeRange & { readonly rail: string }, signal: AbortSignal) =>
  request<RailStatisticsList>('/v1/series/rails', { query: { ...query }, signal })
export const readLatencySeries = (query: TimeRange & { readonly rail: string }, signal: AbortSignal) =>
  request<LatencySeries>('/v1/series/latency', { query: { ...query }, signal })

export const listPayments = (filter: PaymentFilter & PageQuery, signal: AbortSignal) =>
  request<OutboxPage>('/v1/outbox', { query: { ...filter }, signal })
export const countPayments = (filter: PaymentFilter, signal: AbortSignal) =>
  request<OutboxCounts>('/v1/outbox/counts', { query: { ...filter }, signal })
export const readTimeline = (outboxId: string, signal: AbortSignal) =>
  request<Timeline>(`/v1/outbox/${e(outboxId)}`, { signal })
export async function readProof(outboxId: string, signal: AbortSignal): Promise<Proof> {
  const rows: Proof['rows'][number][] = []
  const blocks = new Map<string, Proof['blocks'][number]>()
  let next: string | null = null
  do {
    const query: { readonly cursor?: string } = next === null ? {} : { cursor: next }
    const page: Proof = await request<Proof>(`/v1/outbox/${e(outboxId)}/proof`, { query, signal })
    rows.push(...page.rows)
    for (const block of page.blocks) blocks.set(block.no, block)
    next = page.next
  } while (next !== null)
  return { outboxId, rows, blocks: [...blocks.values()], next }
}
/** Returns a body with the payload as the given text, because a parser would round large numbers. */
const bodyOf = (fields: object, payload: string) =>
  new Blob([`${JSON.stringify(fields).slice(0, -1)},"payload":${payload}}`])

/** Enqueues a payment, or proposes it to a second person if a reason is given. */
export const enqueuePayment = (
  fields: Omit<Instruction, 'payload'> & { readonly instructionId: string },
  payload: string,
  reason: string | null,
) =>
  request<Accepted>(reason === null ? '/v1/instructions' : '/v1/instructions/propose', {
    method: 'POST',
    body: bodyOf(reason === null ? fields : { ...fields, reason }, payload),
    headers: { 'idempotency-key': fields.instructionId },
  })

export const listDlq = (filter: PaymentFilter & PageQuery, signal: AbortSignal) =>
  request<DlqPage>('/v1/dlq', { query: { ...filter }, signal })
export const listHolds = (filter: PaymentFilter & PageQuery & { readonly assignee?: string }, signal: AbortSignal) =>
  request<HoldPage>('/v1/holds', { query: { ...filter }, signal })

export const placeHold = (outboxId: string, reason: string) =>
  request<HoldPlaced>(`/v1/outbox/${e(outboxId)}/hold`, { method: 'POST', body: { reason } })
export const addNote = (outboxId: string, body: NoteBody) =>
  request<NoteAdded>(`/v1/outbox/${e(outboxId)}/notes`, { method: 'POST', body })
export const cancelPayment = (outboxId: string, reason: string) =>
  request<Cancelled>(`/v1/outbox/${e(outboxId)}/cancel`, { method: 'POST', body: { reason } })
export const recordReturn = (outboxId: string, body: ReturnBody) =>
  request<ReturnRecorded>(`/v1/outbox/${e(outboxId)}/returns`, { method: 'POST', body })
export const redrive = (outboxId: string, reason: string) =>
  request<Decided>(`/v1/outbox/${e(outboxId)}/redrive`, { method: 'POST', body: { reason } })
export const resolveHold = (outboxId: string, body: ResolveBody) =>
  request<Decided>(`/v1/holds/${e(outboxId)}/resolve`, { method: 'POST', body })
export const listContradictions = (query: PageQuery, signal: AbortSignal) =>
  request<ContradictionPage>('/v1/contradictions', { query: { ...query }, signal })
export const reviewContradiction = (eventId: string, reason: string) =>
  request<Reviewed>(`/v1/contradictions/${e(eventId)}/review`, { method: 'POST', body: { reason } })
export const approveProposal = (proposalId: string) =>
  request<Approved>(`/v1/proposals/${e(proposalId)}/approve`, { method: 'POST' })
export const withdrawProposal = (proposalId: string, reason: string) =>
  request<Withdrawn>(`/v1/proposals/${e(proposalId)}/withdraw`, { method: 'POST', body: { reason } })
export const readDispatch = (signal: AbortSignal) => request<Dispatch>('/v1/dispatch', { signal })
export const freezeDispatch = (reason: string) =>
  request<Changed>('/v1/dispatch/freeze', { method: 'POST', body: { reason } })
export const liftFreeze = (reason: string) =>
  request<Changed>('/v1/dispatch/lift', { method: 'POST', body: { reason } })
export const listPauses = (signal: AbortSignal) => request<Pauses>('/v1/pauses', { signal })
export const pauseOutbox = (body: PauseBody) => request<Changed>('/v1/pauses', { method: 'POST', body })
export const resumeOutbox = (body: PauseBody) => request<Changed>('/v1/pauses/resume', { method: 'POST', body })

export const listLimits = (signal: AbortSignal) => request<Limits>('/v1/limits', { signal })
export const proposeLimit = (body: LimitBody) => request<LimitProposed>('/v1/limits', { method: 'POST', body })
export const proposeLimitRemoval = (name: string, reason: string) =>
  request<LimitProposed>(`/v1/limits/${e(name)}/remove`, { method: 'POST', body: { reason } })
export const approveLimit = (proposalId: string) =>
  request<LimitApproved>(`/v1/limits/proposals/${e(proposalId)}/approve`, { method: 'POST' })
export const withdrawLimit = (proposalId: string, reason: string) =>
  request<Withdrawn>(`/v1/limits/proposals/${e(proposalId)}/withdraw`, { method: 'POST', body: { reason } })

export const listJobs = (signal: AbortSignal) => request<Jobs>('/v1/jobs', { signal })
export const listJobRuns = (name: string, query: PageQuery & Pick<PaymentFilter, 'from' | 'to'>, signal: AbortSignal) =>
  request<JobRunPage>(`/v1/jobs/${e(name)}/runs`, { query: { ...query }, signal })
export const listTimers = (query: PageQuery & { readonly state?: string }, signal: AbortSignal) =>
  request<TimerPage>('/v1/timers', { query: { ...query }, signal })
export const putJob = (name: string, fields: Omit<JobBody, 'payload'>, payload: string) =>
  request<JobDefined>(`/v1/jobs/${e(name)}`, { method: 'PUT', body: bodyOf(fields, payload) })
export const putTimer = (timerId: string, fields: Omit<TimerBody, 'payload'>, payload: string) =>
  request<TimerScheduled>(`/v1/timers/${e(timerId)}`, { method: 'PUT', body: bodyOf(fields, payload) })
export const pauseJob = (name: string) => request<Changed>(`/v1/jobs/${e(name)}/pause`, { method: 'POST' })
export const resumeJob = (name: string) => request<Changed>(`/v1/jobs/${e(name)}/resume`, { method: 'POST' })
export const triggerJob = (name: string) => request<JobTriggered>(`/v1/jobs/${e(name)}/trigger`, { method: 'POST' })

export const cancelTimer = (timerId: string) => request<Changed>(`/v1/timers/${e(timerId)}/cancel`, { method: 'POST' })

export const listInbox = (
  query: PageQuery & { readonly state?: string; readonly from?: string; readonly to?: string },
  signal: AbortSignal,
) => request<InboxPage>('/v1/inbox', { query: { ...query }, signal })
export const reviveMessage = (source: string, messageId: string, reason: string) =>
  request<Revived>(`/v1/inbox/${e(source)}/${e(messageId)}/revive`, { method: 'POST', body: { reason } })
export const listLeases = (query: PageQuery & { readonly released?: string }, signal: AbortSignal) =>
  request<LeasePage>('/v1/leases', { query: { ...query }, signal })
