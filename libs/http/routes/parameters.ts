import { Type } from 'typebox'
import type { Identity } from '../access/Identity.js'
import { ProblemError } from '../Problem.js'
import { Cursor, Id, Uuid } from '../shapes/common.js'

/** What several routes take, said once. */
export const LIMIT_DEFAULT = 100

export const page = {
  cursor: Type.Optional(Cursor),
  limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, description: 'default 100' })),
}

export const outboxIdParam = { outboxId: Uuid }
export const proposalIdParam = { proposalId: Uuid }
export const timerIdParam = { timerId: Uuid }
export const jobNameParam = { name: Id }

/** Which participants a question is about: those asked for, within those that the key is bound to; undefined: all. */
export function participantsFor(identity: Identity, asked: string | undefined): readonly string[] | undefined {
  const { participants } = identity
  if (asked === undefined) return participants ?? undefined
  requireParticipant(identity, asked)
  return [asked]
}

export function requireParticipant({ participants }: Identity, participantId: string): void {
  if (participants === null || participants.includes(participantId)) return
  throw new ProblemError('PARTICIPANT_REFUSED', 'participantId: this key is bound to others', {
    argument: 'participantId',
  })
}

export function isVisible({ participants }: Identity, participantId: string | undefined): boolean {
  return participantId !== undefined && (participants === null || participants.includes(participantId))
}

/** Undefined means all: an option that is absent, because it must not be there as undefined. */
export function ofParticipants(participants: readonly string[] | undefined): { participants?: readonly string[] } {
  return participants === undefined ? {} : { participants }
}
