import type { IncomingMessage } from 'node:http'
import { Type } from '#typebox'
import { readItemViews, readRailFields } from '../../outbox/index.js'
import {
  closeReconciliationFinding,
  parseStatementColumns,
  readFindingsBySeverity,
  readReconciliationRun,
  readReconciliationRuns,
  STATEMENT_FORMATS,
  type BankDetail,
  type Finding,
  type StatementFormat,
} from '../../reconciliation/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role } from '../Api.js'
import { dropRest, extendDeadline } from '../bodyDeadline.js'
import type { HttpLimits } from '../limits.js'
import { OneAtATime } from '../OneAtATime.js'
import { ProblemError } from '../Problem.js'
import { Id, oneOf, Uuid } from '../shapes/common.js'
import { ReasonBody } from '../shapes/decisions.js'
import { FindingClosed, FindingKindShape, FindingPage, Reconciled, Run, RunPage } from '../shapes/reconciliation.js'
import { EXAMPLE, FINDING_EXAMPLE, RECONCILED_EXAMPLE, RUN_EXAMPLE, STATEMENT_LINE_EXAMPLE } from './examples.js'
import { decodeCursor, encodeCursor, LIMIT_DEFAULT, page, UUID_PART } from './parameters.js'
import { route, type Route } from './route.js'

const RUNS = { list: 'reconciliations', parts: { id: UUID_PART } }
const FINDINGS = { list: 'findings', parts: { severity: /^(?:critical|warning|info)$/, id: UUID_PART } }
const common = { tag: 'reconciliation', participants: 'refused' } as const

/** Routes for the comparison of bank statements with the ledger. */
export function reconciliationRoutes(api: Api, limits: Required<HttpLimits>): readonly Route[] {
  const { roles } = api
  return [
    uploadRoute(api, limits.statementMibMax),
    route({
      ...common,
      method: 'GET',
      path: '/v1/reconciliations',
      summary: 'Comparisons of bank statements with the ledger, newest first.',
      access: 'read',
      query: { rail: Type.Optional(Id), ...page },
      answers: { 200: { description: 'A page of runs.', schema: RunPage } },
      problems: ['INVALID_QUERY'],
      example: { query: { rail: EXAMPLE.railType }, status: 200, answer: { items: [RUN_EXAMPLE], next: null } },
      handle: async ({ query: { rail, cursor, limit = LIMIT_DEFAULT } }) => {
        const before = decodeCursor(RUNS, cursor)?.id
        const { items, next } = await readReconciliationRuns(roles.readonly, {
          limit,
          ...(rail === undefined ? {} : { railType: rail }),
          ...(before === undefined ? {} : { before }),
        })
        return { items, next: next === null ? null : encodeCursor(RUNS, { id: next }) }
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/v1/reconciliations/{runId}',
      summary: 'One comparison of a bank statement with the ledger.',
      access: 'read',
      params: { runId: Uuid },
      answers: { 200: { description: 'The run.', schema: Run } },
      problems: ['RUN_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: { params: { runId: EXAMPLE.reconciliationId }, status: 200, answer: RUN_EXAMPLE },
      handle: async ({ params: { runId } }) => {
        const run = await readReconciliationRun(roles.readonly, runId)
        if (run === undefined) throw new ProblemError('RUN_NOT_FOUND')
        return run
      },
    }),
    route({
      ...common,
      method: 'GET',
      path: '/v1/findings',
      summary: 'Differences between bank statements and the ledger: critical ones first, then newest first.',
      access: 'read',
      query: {
        state: Type.Optional(oneOf(['open', 'closed'], 'default both')),
        kind: Type.Optional(FindingKindShape),
        run: Type.Optional(Uuid),
        ...page,
      },
      answers: { 200: { description: 'A page of findings.', schema: FindingPage } },
      problems: ['INVALID_QUERY'],
      example: { query: { state: 'open' }, status: 200, answer: { items: [FINDING_EXAMPLE], next: null } },
      handle: async ({ identity, query: { state, kind, run, cursor, limit = LIMIT_DEFAULT } }) => {
        const after = decodeCursor(FINDINGS, cursor)
        const { items, next } = await readFindings(api, identity, {
          limit,
          ...(state === undefined ? {} : { state }),
          ...(kind === undefined ? {} : { kind }),
          ...(run === undefined ? {} : { runId: run }),
          ...(after === undefined ? {} : { after: { severity: severityOf(after.severity), before: after.id } }),
        })
        return {
          items,
          next: next === null ? null : encodeCursor(FINDINGS, { severity: next.severity, id: next.before }),
        }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/v1/findings/{findingId}/close',
      summary: 'Records that a person settled a finding. The payment and the statement stay as they are.',
      access: 'operate',
      params: { findingId: Uuid },
      body: ReasonBody,
      answers: { 200: { description: 'The finding is closed.', schema: FindingClosed } },
      problems: ['DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { findingId: EXAMPLE.findingId },
        body: { reason: 'the bank returned the second booking, OPS-913' },
        status: 200,
        answer: { findingId: EXAMPLE.findingId, eventId: EXAMPLE.eventId },
      },
      handle: async ({ identity, params: { findingId }, body: { reason } }) => ({
        findingId,
        eventId: await closeReconciliationFinding(roles.control(identity), findingId, reason),
      }),
    }),
  ]
}

/** Returns the role and the level of detail for bank entries. Accounts and references need the scope audit. */
function bankReader({ roles }: Api, { scopes }: Identity): readonly [Role, BankDetail] {
  return scopes.includes('audit') ? [roles.auditor, 'full'] : [roles.readonly, 'limited']
}

/**
 * Reads findings, critical ones first. A caller without the scope audit does not see the payment stored with a finding,
 * but gets the payment in its current state instead.
 */
export async function readFindings(api: Api, identity: Identity, search: Parameters<typeof readFindingsBySeverity>[1]) {
  const [role, detail] = bankReader(api, identity)
  const { items, next } = await readFindingsBySeverity(role, search, detail)
  return { items: detail === 'full' ? items : await withPayments(role, items), next }
}

async function withPayments(role: Role, findings: readonly Finding[]): Promise<readonly Finding[]> {
  const ids = findings.flatMap(({ outboxId }) => (outboxId === null ? [] : [outboxId]))
  const payments = new Map((await readItemViews(role, ids)).map((item) => [item.outboxId, item]))
  return findings.map((finding) => {
    const item = payments.get(finding.outboxId ?? '')
    if (item === undefined) return finding
    const { amount, currency, instructionId, idempotencyKey, participantId } = item
    const state = isSettled(item.state) ? item.state : ('PENDING' as const)
    const ended = { railReference: item.lastRailReference, completedAt: item.lastAttemptAt }
    return {
      ...finding,
      payment: { state, amount, currency, instructionId, idempotencyKey, participantId, ...ended },
    }
  })
}

function isSettled(state: string): state is 'DISPATCHED' | 'FAILED' | 'HELD' {
  return state === 'DISPATCHED' || state === 'FAILED' || state === 'HELD'
}

function severityOf(word: string): Finding['severity'] {
  return word === 'critical' || word === 'warning' ? word : 'info'
}

/** Media types of a format. `application/octet-stream` is accepted for each, because many tools send it for files. */
const MEDIA_TYPES: Readonly<Record<StatementFormat, readonly string[]>> = {
  camt053: ['application/xml', 'text/xml'],
  camt054: ['application/xml', 'text/xml'],
  csv: ['text/csv'],
  ndjson: ['application/x-ndjson'],
}
const ANY_FILE = 'application/octet-stream'

function uploadRoute({ reconcile, roles }: Api, mibMax: number): Route {
  const running = new OneAtATime('upload')
  return route({
    ...common,
    method: 'POST',
    path: '/v1/reconciliations',
    summary:
      'Compares a bank statement, the body of the request, with the ledger of a rail. The same file again returns the first run.',
    access: 'operate',
    upload: [...new Set([...Object.values(MEDIA_TYPES).flat(), ANY_FILE])],
    query: STATEMENT_QUERY,
    answers: { 200: { description: 'The statement was compared.', schema: Reconciled } },
    problems: ['STATEMENT_INVALID', 'INVALID_QUERY', 'INVALID_ARGUMENT', 'ENCRYPTION_UNAVAILABLE'],
    example: {
      query: { rail: EXAMPLE.railType, format: 'ndjson', settlementDays: '2', dryRun: 'true' },
      headers: { 'content-type': 'application/x-ndjson' },
      body: `${JSON.stringify(STATEMENT_LINE_EXAMPLE)}\n`,
      status: 200,
      answer: RECONCILED_EXAMPLE,
    },
    handle: async ({ identity, query, request: { raw, headers } }) => {
      requireMediaType(query.format, headers['content-type'])
      const end = running.begin(identity)
      extendDeadline(raw)
      try {
        const { columns, ...settings } = query
        const { findings, ...outcome } = await reconcile(identity, {
          ...settings,
          ...(columns === undefined ? {} : { columns: parseStatementColumns('columns', columns) }),
          statement: fileIn(raw, mibMax),
        })
        if (identity.scopes.includes('audit')) return { ...outcome, findings }
        return { ...outcome, findings: await withoutAuditFields(roles.readonly, query.rail, findings) }
      } catch (error) {
        // The client disconnected during the upload.
        if (raw.destroyed && !raw.complete) throw new ProblemError('BAD_REQUEST', 'The upload ended early.')
        dropRest(raw)
        throw error
      } finally {
        end()
      }
    },
  })
}

/** Removes what needs the scope audit: accounts, references, and amounts that the rail hides. */
async function withoutAuditFields(role: Role, rail: string, findings: readonly Finding[]): Promise<readonly Finding[]> {
  const fields = await readRailFields(role, rail)
  const isHidden = (path: string) => [fields[path], fields['/*']].some((one = 'public') => one !== 'public')
  const hidden = {
    account: null,
    bankReference: null,
    reference: null,
    ...(isHidden('/amount') ? { amount: null } : {}),
    ...(isHidden('/currency') ? { currency: null } : {}),
  }
  const limited = findings.map((finding) => ({
    ...finding,
    payment: null,
    entries: finding.entries.map((entry) => ({ ...entry, ...hidden })),
  }))
  return withPayments(role, limited)
}

const STATEMENT_QUERY = {
  rail: Id,
  format: oneOf(STATEMENT_FORMATS),
  settlementDays: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 60, description: 'days that the bank takes to book a payment; default 1' }),
  ),
  account: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'account whose statements count; default all in the file',
    }),
  ),
  columns: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 2_000,
      description: 'csv: reference=NAME,amount=NAME,currency=NAME,date=NAME',
    }),
  ),
  decimal: Type.Optional(oneOf(['.', ','], 'csv: decimal mark; default a full stop')),
  dateFormat: Type.Optional(
    Type.String({ minLength: 1, maxLength: 40, description: 'csv: such as DD.MM.YYYY; default YYYY-MM-DD' }),
  ),
  keepUnknown: Type.Optional(Type.Boolean({ description: 'lists unknown entries; default false: only count and sum' })),
  dryRun: Type.Optional(Type.Boolean({ description: 'compares and stores nothing; default false' })),
}

function requireMediaType(format: StatementFormat, contentType: string | undefined): void {
  const type = contentType?.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const accepted = [...MEDIA_TYPES[format], ANY_FILE]
  if (!accepted.includes(type)) throw new ProblemError('UNSUPPORTED_MEDIA_TYPE', `Expected ${accepted.join(' or ')}.`)
}

/**
 * Yields the bytes of an uploaded file, up to the maximum size. If the consumer stops early, the connection stays open
 * so that the client gets the answer.
 */
async function* fileIn(request: IncomingMessage, mibMax: number): AsyncGenerator<Uint8Array, void> {
  const bytesMax = mibMax * 1_048_576
  const tooLarge = new ProblemError(
    'BODY_TOO_LARGE',
    `At most ${mibMax} MiB (--statement-mib-max). Split the statement.`,
  )
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw tooLarge
  let bytes = 0
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    if (!Buffer.isBuffer(chunk)) continue
    bytes += chunk.length
    if (bytes > bytesMax) throw tooLarge
    yield chunk
  }
}
