import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyInstance, FastifyReply } from 'fastify'
import { requiredId } from '../core/index.js'
import { continuedTrace, enqueuePaymentOutbox, readAttempts, readInstruction, readItems } from '../outbox/index.js'
import { ProblemError } from './Problem.js'
import { readJson } from './readJson.js'

type Role = Parameters<typeof readItems>[0]

/** Each route acts in its own role of the database, and can do no more than that role. */
export interface InstructionRoles {
  /** symphony_ingest */
  readonly ingest: Role
  /** symphony_readonly */
  readonly readonly: Role
}

export function registerInstructions(app: FastifyInstance, { ingest, readonly }: InstructionRoles): void {
  app.post<{ Body: Buffer | undefined }>('/v1/instructions', (request, reply) => accept(ingest, request, reply))
  app.get<{ Params: { instructionId: string } }>('/v1/instructions/:instructionId', ({ params }) =>
    describe(readonly, requiredId('instructionId', params.instructionId)),
  )
}

async function accept(
  ingest: Role,
  { body, headers }: { readonly body: Buffer | undefined; readonly headers: IncomingHttpHeaders },
  reply: FastifyReply,
): Promise<object> {
  const idempotencyKey = requiredKey(headers['idempotency-key'])
  const instruction = readInstruction(readJson(body), { idempotencyKey })
  // A statement of its own: when it returns, it is committed, and only then is anything answered.
  const { created, ...item } = await enqueuePaymentOutbox(ingest, { ...instruction, ...continuedTrace(headers) })
  const { instructionId } = instruction
  void reply.code(created ? 201 : 200).header('location', `/v1/instructions/${encodeURIComponent(instructionId)}`)
  return { instructionId, ...item, created }
}

async function describe(readonly: Role, instructionId: string): Promise<object> {
  const items = await readItems(readonly, { instructionId })
  if (items.length === 0) throw new ProblemError('INSTRUCTION_NOT_FOUND')
  const described: object[] = []
  for (const item of items) described.push({ ...item, attempts: await readAttempts(readonly, item.outboxId) })
  return { instructionId, items: described }
}

function requiredKey(header: string | string[] | undefined): string {
  if (header === undefined || header === '') {
    throw new ProblemError('IDEMPOTENCY_KEY_MISSING', 'It names this payment for ever: choose one and keep it.')
  }
  return String(header)
}
