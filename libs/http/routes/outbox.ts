import { Type } from '#typebox'
import { readItemProof, type ProvenRow, type RowProof } from '../../ledger/index.js'
import {
  findItems,
  readAttemptViews,
  readEventViews,
  readItemViews,
  readParticipantOf,
  readProposalsOf,
  readRedrives,
  readReplacement,
  searchItems,
  searchParticipant,
  type ItemKind,
} from '../../outbox/index.js'
import { readPaymentEntries } from '../../reconciliation/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role, ShowPayload } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { Id, oneOf } from '../shapes/common.js'
import {
  ItemKindShape,
  ItemStateShape,
  OutboxPage,
  Proof,
  Timeline,
  type ProofBlock,
  type ProofRow,
} from '../shapes/outbox.js'
import { ATTEMPT_EXAMPLE, EXAMPLE, ITEM_EXAMPLE } from './examples.js'
import {
  decodeCursor,
  encodeCursor,
  FOREIGN_CURSOR,
  isVisible,
  LIMIT_DEFAULT,
  NUMBER_PART,
  ofParticipants,
  outboxIdParam,
  page,
  participantsFor,
  UUID_PART,
} from './parameters.js'
import { readFindings } from './reconciliations.js'
import { route, type Route } from './route.js'

const BY_ID = { list: 'outbox', parts: { id: UUID_PART } }
const BY_FAILURE = { list: 'failed', parts: { id: UUID_PART } }
const BY_SEQUENCE = { list: 'stream', parts: { number: NUMBER_PART } }

const BY_ROW = { list: 'proof', parts: { kind: /^(?:identity|attempt|event)$/, number: NUMBER_PART } }

export function outboxRoutes(api: Api): readonly Route[] {
  const { roles, protection } = api
  return [
    route({
      method: 'GET',
      path: '/v1/outbox',
      tag: 'payments',
      summary:
        'Payments, newest first, filtered by state, return, rail, participant or a search word. Failed payments are sorted by the time of their failure.',
      access: 'read',
      participants: 'filtered',
      query: {
        q: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description:
              'instruction id, participant, rail reference, idempotency key of this caller, or outbox id (at least its first eight digits): returns one page of the newest matches',
          }),
        ),
        kind: Type.Optional(ItemKindShape),
        state: Type.Optional(ItemStateShape),
        returned: Type.Optional(oneOf(['true'], 'only payments of which the rail returned money')),
        rail: Type.Optional(Id),
        participant: Type.Optional(Id),
        ...page,
      },
      answers: { 200: { description: 'A page of payments.', schema: OutboxPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { state: 'DISPATCHED', limit: '20' },
        status: 200,
        answer: { items: [ITEM_EXAMPLE], next: null },
      },
      handle: async ({ identity, query }) => {
        const { q, kind, state, rail, participant, cursor, limit = LIMIT_DEFAULT } = query
        const returned = query.returned === 'true'
        const participants = participantsFor(identity, participant)
        const found =
          q !== undefined
            ? await named(roles.readonly, q, { participants, keyScope: identity.keyScope, cursor, limit })
            : participant !== undefined && state === undefined && rail === undefined && !returned
              ? await streamOf(roles.readonly, participant, { kind, cursor, limit })
              : await searched(roles.readonly, { participants, kind, state, returned, rail, cursor, limit })
        const items = await readItemViews(roles.readonly, found.ids)
        // With a search word, the filters by kind, state, return and rail apply to its matches.
        const kept =
          q === undefined
            ? items
            : items.filter(
                (item) =>
                  (kind === undefined || (kind === 'message') === item.isMessage) &&
                  (state ?? item.state) === item.state &&
                  (!returned || item.returned) &&
                  (rail ?? item.railType) === item.railType,
              )
        return { items: kept, next: found.next }
      },
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
          replacedBy: await readReplacement(roles.readonly, outboxId),
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

/** Throws ITEM_NOT_FOUND, also for an item of another participant. */
export async function requireItem(role: Role, identity: Identity, outboxId: string): Promise<void> {
  if (!isVisible(identity, await readParticipantOf(role, outboxId))) throw new ProblemError('ITEM_NOT_FOUND')
}

interface Page {
  readonly cursor: string | undefined
  readonly limit: number
}

interface Found {
  readonly ids: readonly string[]
  readonly next: string | null
}

async function searched(
  role: Role,
  { participants, kind, state, returned, rail, cursor, limit }: Page & SearchedBy,
): Promise<Found> {
  // Failed items have another order, so a cursor of one list is invalid in the other.
  const list = state === 'FAILED' ? BY_FAILURE : BY_ID
  const before = decodeCursor(list, cursor)?.id
  const { ids, next } = await searchItems(role, {
    limit,
    returned,
    ...ofParticipants(participants),
    ...(kind === undefined ? {} : { kind }),
    ...(state === undefined ? {} : { state }),
    ...(rail === undefined ? {} : { railType: rail }),
    ...(before === undefined ? {} : { before }),
  })
  return { ids, next: next === null ? null : encodeCursor(list, { id: next }) }
}

interface SearchedBy {
  readonly participants: readonly string[] | undefined
  readonly kind: ItemKind | undefined
  readonly state: Parameters<typeof searchItems>[1]['state'] | undefined
  readonly returned: boolean
  readonly rail: string | undefined
}

async function streamOf(
  role: Role,
  participant: string,
  { kind, cursor, limit }: Page & Pick<SearchedBy, 'kind'>,
): Promise<Found> {
  const number = decodeCursor(BY_SEQUENCE, cursor)?.number
  const before = number === undefined ? {} : { before: BigInt(number) }
  const { ids, next } = await searchParticipant(role, participant, {
    ...before,
    ...(kind === undefined ? {} : { kind }),
    limit,
  })
  return { ids, next: next === null ? null : encodeCursor(BY_SEQUENCE, { number: String(next) }) }
}

async function named(
  role: Role,
  word: string,
  {
    participants,
    keyScope,
    cursor,
    limit,
  }: Page & { readonly participants: readonly string[] | undefined; readonly keyScope: string },
): Promise<Found> {
  if (cursor !== undefined) {
    throw new ProblemError('INVALID_QUERY', 'cursor: a search by word has one page', { argument: 'cursor' })
  }
  return { ids: await findItems(role, word, { ...ofParticipants(participants), keyScope, limit }), next: null }
}

/** Reads the rows after a cursor: one more than a page may have, to know whether another page follows. */
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

/** Maximum number of rows of a page. It is small, because each row may be in another block. */
const PROOF_ROWS_MAX = 32
/** Maximum size of rows and blocks, so that a page stays below 64 KiB. */
const PROOF_BYTES_MAX = 65_000

/** Returns the size of a value as JSON, including the comma after it. */
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
