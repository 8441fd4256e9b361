import { Type } from '#typebox'
import { readItemProof, type ProvenRow, type RowProof } from '../../ledger/index.js'
import {
  readAttemptViews,
  readEventViews,
  readItemViews,
  readParticipantOf,
  readProposalsOf,
  readRedrives,
  readReplacements,
} from '../../outbox/index.js'
import { readPaymentEntries } from '../../reconciliation/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role, ShowPayload } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { oneOf } from '../shapes/common.js'
import { OutboxCounts, OutboxPage, Proof, Timeline, type ProofBlock, type ProofRow } from '../shapes/outbox.js'
import { ATTEMPT_EXAMPLE, EXAMPLE, ITEM_EXAMPLE } from './examples.js'
import {
  decodeCursor,
  encodeCursor,
  FOREIGN_CURSOR,
  isVisible,
  LIMIT_DEFAULT,
  NUMBER_PART,
  outboxIdParam,
  page,
} from './parameters.js'
import { countPayments, filters, findPayments, matchesLive } from './paymentSearch.js'
import { readFindings } from './reconciliations.js'
import { route, type Route } from './route.js'

const BY_ROW = { list: 'proof', parts: { kind: /^(?:identity|attempt|event)$/, number: NUMBER_PART } }

export function outboxRoutes(api: Api): readonly Route[] {
  const { roles, protection } = api
  return [
    route({
      method: 'GET',
      path: '/v1/outbox',
      tag: 'payments',
      summary:
        'Payments, newest first, filtered by state, return, rail, participant, time, amount, destination or a search word. Failed payments are sorted by the time of their failure.',
      access: 'read',
      participants: 'filtered',
      query: {
        q: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description:
              'participant, beginning of an instruction id, idempotency key or rail reference (three characters), or of an outbox id (eight digits): returns one page of the newest matches',
          }),
        ),
        ...filters,
        sort: Type.Optional(
          oneOf(
            ['newest', 'oldest', 'largest', 'smallest'],
            'default newest; largest and smallest need a currency. Lists by amount and from the oldest are a few seconds behind',
          ),
        ),
        ...page,
      },
      answers: { 200: { description: 'A page of payments.', schema: OutboxPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED', 'DESTINATION_SEARCH_UNAVAILABLE'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { state: 'DISPATCHED', limit: '20' },
        status: 200,
        answer: { items: [ITEM_EXAMPLE], next: null },
      },
      handle: async ({ identity, query }) => {
        const found = await findPayments(api, identity, query)
        const items = await readItemViews(roles.readonly, found.ids)
        // Filters again: a search by word ignores these filters, and the search table may contain an older state.
        return { items: items.filter((item) => matchesLive(item, query)), next: found.next }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/outbox/counts',
      tag: 'payments',
      summary: 'Number of payments per state that match the filters of GET /v1/outbox, a few seconds behind.',
      access: 'read',
      participants: 'filtered',
      query: filters,
      answers: { 200: { description: 'Counts of at most 20000 payments.', schema: OutboxCounts } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED', 'DESTINATION_SEARCH_UNAVAILABLE'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { rail: EXAMPLE.railType },
        status: 200,
        answer: {
          states: { PENDING: 3, HELD: 1, DISPATCHED: 1041, FAILED: 2, CANCELLED: 1 },
          returned: 1,
          truncated: false,
        },
      },
      handle: ({ identity, query }) => countPayments(api, identity, query),
    }),
    route({
      method: 'GET',
      path: '/v1/outbox/{outboxId}',
      tag: 'payments',
      summary: 'Timeline of one payment: its state, lease, attempts, events, bank entries, decisions and redrives.',
      access: 'read',
      participants: 'filtered',
      params: outboxIdParam,
      answers: { 200: { description: 'The timeline.', schema: Timeline } },
      problems: ['ITEM_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.paidId },
        status: 200,
        answer: {
          item: ITEM_EXAMPLE,
          attempts: [ATTEMPT_EXAMPLE],
          events: [],
          bankEntries: [],
          proposals: [],
          redrivenAs: [],
          replacedBy: null,
          findings: [],
        },
      },
      handle: async ({ identity, params: { outboxId } }) => {
        const [item] = await readItemViews(roles.readonly, [outboxId])
        if (item === undefined || !isVisible(identity, item.participantId)) throw new ProblemError('ITEM_NOT_FOUND')
        const ids = [item.outboxId]
        const attempts = await readAttemptViews(roles.readonly, ids)
        return {
          item,
          attempts: attempts.map(({ outboxId: _of, ...attempt }) => attempt),
          events: await readEventViews(roles.readonly, outboxId),
          bankEntries: await readPaymentEntries(roles.readonly, outboxId),
          proposals: await readProposalsOf(roles.readonly, ids),
          redrivenAs: (await readRedrives(roles.readonly, ids)).map((redrive) => redrive.as),
          replacedBy: (await readReplacements(roles.readonly, ids)).get(item.outboxId) ?? null,
          findings: (await readFindings(api, identity, { outboxId, limit: LIMIT_DEFAULT })).items,
        }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/outbox/{outboxId}/proof',
      tag: 'payments',
      summary: 'Ledger rows of one payment and their places in sealed blocks, to recompute the hashes.',
      access: 'audit',
      participants: 'filtered',
      params: outboxIdParam,
      query: {
        payloads: Type.Optional(
          oneOf(
            ['masked', 'plain'],
            'default masked, by the field classes of the rail; the hash of a masked row cannot be recomputed',
          ),
        ),
        cursor: page.cursor,
      },
      answers: {
        200: {
          description: 'Ledger rows. A page has at most 32 rows and 64 KiB, or one larger row.',
          schema: Proof,
        },
      },
      problems: ['ITEM_NOT_FOUND', 'INVALID_ARGUMENT', 'INVALID_QUERY'],
      example: {
        params: { outboxId: EXAMPLE.paidId },
        status: 200,
        answer: {
          outboxId: EXAMPLE.paidId,
          rows: [
            {
              kind: 'attempt',
              number: '1',
              id: EXAMPLE.attemptId,
              transaction: '4711',
              record: 'AAAAFgAAC4YAAAAQ',
              payload: null,
              block: '12',
              entries: 'AAI=',
              nodes: ['q83v'],
            },
          ],
          blocks: [{ no: '12', hash: EXAMPLE.hash, head: 'AAAACQ==' }],
          next: null,
        },
      },
      handle: async ({ identity, params: { outboxId }, query: { payloads = 'masked', cursor } }) => {
        await requireItem(roles.auditor, identity, outboxId)
        const rows = await provenRows(roles.auditor, outboxId, cursor)
        const railType = rows.find(({ row }) => row.kind === 'attempt')?.row.field('rail_type') ?? ''
        const show = payloads === 'plain' ? undefined : await protection?.maskFor(roles.auditor, railType)
        return { outboxId, ...proofPage(rows, show) }
      },
    }),
  ]
}

/** Throws ITEM_NOT_FOUND for an unknown item and for an item of a participant that the caller may not see. */
export async function requireItem(role: Role, identity: Identity, outboxId: string): Promise<void> {
  if (!isVisible(identity, await readParticipantOf(role, outboxId))) throw new ProblemError('ITEM_NOT_FOUND')
}

/** Reads the rows after a cursor: one more than a page, to know whether another page follows. */
async function provenRows(role: Role, outboxId: string, cursor: string | undefined): Promise<readonly ProvenRow[]> {
  const after = decodeCursor(BY_ROW, cursor)
  if (after === undefined) return readItemProof(role, outboxId, { from: FIRST_ROW, limit: PROOF_ROWS_MAX + 1 })
  const kind = after.kind === 'identity' || after.kind === 'attempt' ? after.kind : 'event'
  const from = { kind, number: BigInt(after.number) } as const
  const [last, ...rows] = await readItemProof(role, outboxId, { from, limit: PROOF_ROWS_MAX + 2 })
  if (last?.row.kind === from.kind && last.row.number === from.number) return rows
  throw new ProblemError('INVALID_QUERY', FOREIGN_CURSOR, { argument: 'cursor' })
}

const FIRST_ROW = { kind: 'identity', number: 0n } as const

function proofPage(rows: readonly ProvenRow[], show: ShowPayload | undefined): Omit<Proof, 'outboxId'> {
  const shown: ProofRow[] = []
  const blocks = new Map<string, ProofBlock>()
  let bytes = 0
  for (const proven of rows.slice(0, PROOF_ROWS_MAX)) {
    const row = proofRow(proven, show)
    const block = proven.proof && proofBlock(proven.proof.block)
    bytes += bytesAsJson(row) + (block === undefined || blocks.has(block.no) ? 0 : bytesAsJson(block))
    if (shown.length > 0 && bytes > PROOF_BYTES_MAX) break
    shown.push(row)
    if (block !== undefined) blocks.set(block.no, block)
  }
  const last = shown.at(-1)
  const isWhole = last === undefined || shown.length === rows.length
  const next = isWhole ? null : encodeCursor(BY_ROW, { kind: last.kind, number: last.number })
  return { rows: shown, blocks: [...blocks.values()], next }
}

/** Maximum number of rows of a page. Small, because each row may need another block. */
const PROOF_ROWS_MAX = 32
/** Maximum size in bytes of all rows and blocks of a page, so that the whole page stays below 64 KiB. */
const PROOF_BYTES_MAX = 65_000

/** Returns the size of a value as JSON, with a comma. */
function bytesAsJson(value: ProofRow | ProofBlock): number {
  return Buffer.byteLength(JSON.stringify(value)) + 1
}

function proofBlock({ no, hash, head }: RowProof['block']): ProofBlock {
  return { no: String(no), hash, head: head.toString('base64') }
}

function proofRow({ row, proof }: ProvenRow, show: ShowPayload | undefined): ProofRow {
  const { kind, id, xid, number, record } = row
  const shown = kind === 'attempt' ? show?.(row.field('payload') ?? '') : undefined
  const isMasked = shown?.masked === true
  return {
    kind,
    number: String(number),
    id,
    transaction: String(xid),
    record: isMasked ? null : record.toString('base64'),
    payload: isMasked ? shown.text : null,
    block: proof === undefined ? null : String(proof.block.no),
    entries: proof?.entries?.toString('base64') ?? null,
    nodes: proof?.nodes.map((node) => node.toString('base64')) ?? [],
  }
}
