import type { RailRequest } from './types.js'

/** What a rail is sent unless it is told otherwise: what is the same on every attempt, and nothing else. */
export function requestBody(request: RailRequest<object>): object {
  const { reference, instructionId, participantId, sequenceId, idempotencyKey, payload } = request
  return { reference, instructionId, participantId, sequenceId: String(sequenceId), idempotencyKey, payload }
}
