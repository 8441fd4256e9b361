import type { FastifyRequest } from 'fastify'
import { Type } from '#typebox'
import { InvalidArgumentError, requiredIdempotencyKey, type Clock } from '../../core/index.js'
import {
  traceContextFromHeaders,
  enqueueChecked,
  proposeChecked,
  RailWarnings,
  readAttemptViews,
  readInstructionIds,
  readTopicsAmong,
  readItemViews,
  type AttemptView,
  type EnqueuedItem,
  type ItemView,
  type OutboxInstruction,
} from '../../outbox/index.js'
import type { Api } from '../Api.js'
import type { Identity } from '../access/Identity.js'
import { ProblemError } from '../Problem.js'
import { Id } from '../shapes/common.js'
import {
  Accepted,
  AcceptedBatch,
  Instruction,
  InstructionBatch,
  InstructionView,
  ProposedInstruction,
  ProposedPayment,
  type Accepted as AcceptedAnswer,
} from '../shapes/instructions.js'
import { ATTEMPT_EXAMPLE, EXAMPLE, ITEM_EXAMPLE } from './examples.js'
import { parseTime, refuseNotices, requireParticipant } from './parameters.js'
import { route, type Route } from './route.js'

const BODY_EXAMPLE = {
  instructionId: EXAMPLE.instructionId,
  participantId: EXAMPLE.participantId,
  railType: EXAMPLE.railType,
  payload: { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' },
}

const ACCEPTED_EXAMPLE = {
  instructionId: EXAMPLE.instructionId,
  outboxId: EXAMPLE.paidId,
  sequenceId: '17',
  createdAt: EXAMPLE.at,
  state: 'DISPATCHED',
  created: false,
}

/** Codes that refuse a payment. The last four come from the checks and field classes of its rail. */
const REFUSALS = [
  'IDEMPOTENCY_CONFLICT',
  'KEY_REUSED',
  'NOT_REPLACEABLE',
  'INVALID_INSTRUCTION',
  'PARTICIPANT_REFUSED',
  'INVALID_PAYLOAD',
  'CARD_NUMBER_REFUSED',
  'SUBJECT_ERASED',
  'ENCRYPTION_UNAVAILABLE',
] as const

export function instructionRoutes({ roles, rails, protection }: Api, clock: Clock): readonly Route[] {
  const checks = { rails, protection }
  const railWarnings = new RailWarnings(roles.ingest, clock)
  /** Returns warnings for pending payments only, because a finished payment needs no worker. */
  const warningsOf = async (instructions: readonly OutboxInstruction[], items: readonly EnqueuedItem[]) => {
    const waiting = instructions.filter((_, index) => items[index]?.state === 'PENDING')
    const warnings = await railWarnings.find(waiting.map(({ railType }) => railType))
    return warnings.length === 0 ? {} : { warnings }
  }
  return [
    route({
      method: 'POST',
      path: '/v1/instructions',
      tag: 'instructions',
      summary: 'Accepts one payment, and answers only after COMMIT. The same key and content return the same payment.',
      access: 'ingest',
      participants: 'filtered',
      headers: Type.Object({ 'idempotency-key': Id }),
      body: Instruction,
      invalid: 'INVALID_INSTRUCTION',
      answers: {
        201: { description: 'The payment is new and committed.', schema: Accepted },
        200: { description: 'The same payment was accepted before; this is its current state.', schema: Accepted },
      },
      problems: ['IDEMPOTENCY_KEY_MISSING', ...REFUSALS],
      example: {
        headers: { 'idempotency-key': EXAMPLE.instructionId },
        body: BODY_EXAMPLE,
        status: 200,
        answer: ACCEPTED_EXAMPLE,
      },
      handle: async ({ identity, body, request, reply }) => {
        const instruction = toInstruction(body, {
          idempotencyKey: requiredKey(request),
          trace: traceContextFromHeaders(request.headers),
        })
        requireParticipant(identity, instruction.participantId)
        await refuseTopics(roles, identity, [instruction])
        // The statement commits before it returns, so the answer follows COMMIT.
        const [item] = await enqueueChecked(roles.ingest, [instruction], checks, { keyScope: identity.keyScope })
        if (item === undefined) throw new ProblemError('INTERNAL')
        const place = `/v1/instructions/${encodeURIComponent(instruction.instructionId)}`
        void reply.code(item.created ? 201 : 200).header('location', place)
        return { ...acceptedOf(instruction, item), ...(await warningsOf([instruction], [item])) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/instructions/batch',
      tag: 'instructions',
      summary: 'Accepts up to 1000 payments in one transaction: all of them or none. Each has its own key.',
      access: 'ingest',
      participants: 'filtered',
      body: InstructionBatch,
      bodyLimit: BATCH_BYTES_MAX,
      invalid: 'INVALID_INSTRUCTION',
      answers: {
        200: { description: 'All payments are committed; some may have existed before.', schema: AcceptedBatch },
      },
      problems: REFUSALS,
      example: {
        body: { instructions: [{ ...BODY_EXAMPLE, idempotencyKey: EXAMPLE.instructionId }] },
        status: 200,
        answer: { items: [ACCEPTED_EXAMPLE] },
      },
      handle: async ({ identity, body, request }) => {
        const trace = traceContextFromHeaders(request.headers)
        const instructions = body.instructions.map((one, index) =>
          toInstruction(one, { idempotencyKey: one.idempotencyKey, place: `instructions[${index}].`, trace }),
        )
        for (const { participantId } of instructions) requireParticipant(identity, participantId)
        await refuseTopics(roles, identity, instructions)
        const items = await enqueueChecked(roles.ingest, instructions, checks, { keyScope: identity.keyScope })
        return {
          items: instructions.flatMap((one, index) => (items[index] ? [acceptedOf(one, items[index])] : [])),
          ...(await warningsOf(instructions, items)),
        }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/instructions/propose',
      tag: 'instructions',
      summary:
        'Accepts one payment that a person entered. It is held until another person approves its proposal, or two above a limit that asks for two.',
      access: 'ingest',
      actsAs: true,
      participants: 'filtered',
      headers: Type.Object({ 'idempotency-key': Id }),
      body: ProposedInstruction,
      invalid: 'INVALID_INSTRUCTION',
      answers: {
        201: { description: 'The payment is committed, held and proposed.', schema: ProposedPayment },
        200: {
          description: 'The same payment was accepted before; this is its current state.',
          schema: ProposedPayment,
        },
      },
      problems: ['IDEMPOTENCY_KEY_MISSING', ...REFUSALS],
      example: {
        headers: { 'idempotency-key': 'rent-2026-11' },
        body: { ...BODY_EXAMPLE, instructionId: 'rent-2026-11', reason: 'the rent of November' },
        status: 201,
        answer: {
          ...ACCEPTED_EXAMPLE,
          instructionId: 'rent-2026-11',
          outboxId: EXAMPLE.heldId,
          state: 'PENDING',
          created: true,
          proposalId: EXAMPLE.proposalId,
        },
      },
      handle: async ({ identity, body: { reason, ...body }, request, reply }) => {
        const idempotencyKey = requiredKey(request)
        const instruction = toInstruction(body, { idempotencyKey, trace: {} })
        requireParticipant(identity, instruction.participantId)
        await refuseTopics(roles, identity, [instruction])
        const { keyScope } = identity
        const item = await proposeChecked(roles.ingestFor(identity), instruction, reason, checks, { keyScope })
        void reply.code(item.created ? 201 : 200)
        return { ...acceptedOf(instruction, item), proposalId: item.proposalId }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/instructions/{instructionId}',
      tag: 'instructions',
      summary: 'All items of an instruction, newest first, with their attempts.',
      access: 'read',
      participants: 'filtered',
      params: { instructionId: Id },
      answers: { 200: { description: 'The items.', schema: InstructionView } },
      problems: ['INSTRUCTION_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: {
        params: { instructionId: EXAMPLE.instructionId },
        status: 200,
        answer: { instructionId: EXAMPLE.instructionId, items: [{ ...ITEM_EXAMPLE, attempts: [ATTEMPT_EXAMPLE] }] },
      },
      handle: async ({ identity, params: { instructionId } }) => {
        const ids = await readInstructionIds(roles.readonly, instructionId, identity.participants)
        if (ids.length === 0) throw new ProblemError('INSTRUCTION_NOT_FOUND')
        const [items, attempts] = [
          await readItemViews(roles.readonly, ids),
          await readAttemptViews(roles.readonly, ids),
        ]
        return {
          instructionId,
          items: items.map((item) => withAttempts(item, attempts)),
        }
      },
    }),
  ]
}

function withAttempts(item: ItemView, attempts: readonly AttemptView[]) {
  const own = attempts.flatMap(({ outboxId, ...attempt }) => (outboxId === item.outboxId ? [attempt] : []))
  return { ...item, attempts: own }
}

function acceptedOf({ instructionId }: OutboxInstruction, item: EnqueuedItem): AcceptedAnswer {
  const { outboxId, sequenceId, createdAt, state, created } = item
  return { instructionId, outboxId, sequenceId: String(sequenceId), createdAt: createdAt.toISOString(), state, created }
}

/**
 * Checks the rules of an instruction that its schema cannot express. Instruction id and key default to each other if
 * the field is missing. The schema has refused null, which probably means that the client lost its id or key.
 */
function toInstruction(body: Instruction, { idempotencyKey, place = '', trace }: Origin): OutboxInstruction {
  // Lists each field, because a rest pattern is slow on objects from the JSON parser.
  const {
    instructionId = idempotencyKey,
    participantId,
    railType,
    payload,
    notBefore,
    ordered,
    outcomeTopic,
    replaces,
  } = body
  if (instructionId === undefined) {
    throw new InvalidArgumentError(`${place}instructionId`, 'missing; expected instructionId or idempotencyKey')
  }
  refuseNotices(place, { railType, outcomeTopic, participantId, instructionId })
  return {
    instructionId,
    participantId,
    idempotencyKey: requiredIdempotencyKey(`${place}idempotencyKey`, idempotencyKey ?? instructionId),
    railType,
    payload,
    ...(notBefore === undefined ? {} : { notBefore: parseTime(`${place}notBefore`, notBefore) }),
    ...(ordered === undefined ? {} : { ordered }),
    ...(outcomeTopic === undefined ? {} : { outcomeTopic }),
    ...(replaces === undefined ? {} : { replaces }),
    ...trace,
  }
}

/**
 * Refuses topics to a key that is restricted to participants: a message speaks to the handler of the topic, and could
 * claim something about other participants.
 */
async function refuseTopics(
  { readonly: role }: Api['roles'],
  { participants }: Identity,
  instructions: readonly OutboxInstruction[],
): Promise<void> {
  if (participants === null) return
  const rails = [...new Set(instructions.map(({ railType }) => railType))]
  const [topic] = await readTopicsAmong(role, rails)
  if (topic === undefined) return
  throw new ProblemError(
    'PARTICIPANT_REFUSED',
    `${topic} is a topic: a key restricted to participants may not send to it.`,
  )
}

/** Parts of an instruction that are not in its body. */
interface Origin {
  /** Idempotency key; undefined if the instruction id is the key. */
  readonly idempotencyKey: string | undefined
  /** Prefix of field names in errors. @default empty */
  readonly place?: string
  readonly trace: ReturnType<typeof traceContextFromHeaders>
}

function requiredKey({ headers }: FastifyRequest): string {
  const header = headers['idempotency-key']
  if (header === undefined || header === '') {
    throw new ProblemError(
      'IDEMPOTENCY_KEY_MISSING',
      'Instruction id and key identify a payment. Choose a key, store it with the payment, and send it again with each retry.',
    )
  }
  return String(header)
}

/** Maximum size of a batch in bytes, enough for 1,000 instructions of 4 KiB each. */
const BATCH_BYTES_MAX = 4_194_304
