import type { FindingClosed, FindingPage, Reconciled, RunPage } from '../../http/index.js'
import { request } from './client.js'

/**
 * Requests of the page Reconciliation. In a separate file, because the code of that page is loaded when it is first
 * opened.
 */

interface PageQuery {
  readonly cursor?: string
}

export interface FindingFilter {
  readonly state?: string
  readonly kind?: string
  readonly run?: string
}

export const listRuns = (query: PageQuery, signal: AbortSignal) =>
  request<RunPage>('/v1/reconciliations', { query: { ...query }, signal })
export const listFindings = (query: FindingFilter & PageQuery, signal: AbortSignal) =>
  request<FindingPage>('/v1/findings', { query: { ...query }, signal })
export const closeFinding = (findingId: string, reason: string) =>
  request<FindingClosed>(`/v1/findings/${encodeURIComponent(findingId)}/close`, { method: 'POST', body: { reason } })

/** Settings of a comparison. Empty settings are not sent. */
export interface StatementSettings {
  readonly rail: string
  readonly format: string
  readonly settlementDays: string
  readonly account: string
  readonly columns: string
  readonly decimal: string
  readonly dateFormat: string
}

/** Uploads a statement. A dry run compares it without storing anything. */
export const uploadStatement = (file: File, settings: StatementSettings, dryRun: boolean) =>
  request<Reconciled>('/v1/reconciliations', {
    method: 'POST',
    query: { ...settings, dryRun },
    headers: { 'content-type': 'application/octet-stream' },
    body: file,
  })
