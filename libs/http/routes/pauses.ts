import { pauseOutbox, readPauses, resumeOutbox } from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { Changed } from '../shapes/common.js'
import { PauseBody } from '../shapes/decisions.js'
import { Pauses } from '../shapes/workers.js'
import { EXAMPLE } from './examples.js'
import { route, type Route } from './route.js'

const BODY = { kind: 'rail', name: 'sepa', reason: 'the bank’s maintenance' }

/** What may not be claimed for now. Leases in hand go on. */
export function pauseRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/pauses',
      tag: 'pauses',
      summary: 'What is paused: rails, participants, and ordered streams of participants.',
      access: 'read',
      participants: 'refused',
      answers: { 200: { description: 'The latest first.', schema: Pauses } },
      problems: [],
      example: {
        status: 200,
        answer: { pauses: [{ ...BODY, pausedBy: 'alice', pausedAt: EXAMPLE.at }] },
      },
      handle: async () => ({ pauses: await readPauses(roles.readonly) }),
    }),
    route({
      method: 'POST',
      path: '/v1/pauses',
      tag: 'pauses',
      summary: 'Pauses a rail, a participant, or the ordered stream of a participant.',
      access: 'operate',
      participants: 'refused',
      body: PauseBody,
      answers: { 200: { description: 'It is paused.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: { body: BODY, status: 200, answer: { changed: true } },
      handle: async ({ identity, body: { kind, name, reason } }) => ({
        changed: await pauseOutbox(roles.control(identity), kind, name, reason),
      }),
    }),
    route({
      method: 'POST',
      path: '/v1/pauses/resume',
      tag: 'pauses',
      summary: 'Ends a pause.',
      access: 'operate',
      participants: 'refused',
      body: PauseBody,
      answers: { 200: { description: 'It is not paused any more.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: { body: BODY, status: 200, answer: { changed: true } },
      handle: async ({ identity, body: { kind, name, reason } }) => ({
        changed: await resumeOutbox(roles.control(identity), kind, name, reason),
      }),
    }),
  ]
}
