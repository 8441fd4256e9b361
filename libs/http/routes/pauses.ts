import { InvalidArgumentError } from '../../core/index.js'
import {
  pauseOutbox,
  readKnownRails,
  readPauses,
  requireKnownName,
  resumeOutbox,
  type PauseKind,
} from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { Changed } from '../shapes/common.js'
import { PauseBody, ResumeBody } from '../shapes/decisions.js'
import { Pauses } from '../shapes/overview.js'
import { EXAMPLE } from './examples.js'
import { route, type Route } from './route.js'

const BODY = { kind: 'rail', name: EXAMPLE.railType, reason: 'the bank’s maintenance' }

/** Routes for pauses. A pause stops claims; current leases continue. */
export function pauseRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/pauses',
      tag: 'pauses',
      summary: 'Pauses of rails, participants, ordered streams or everything, and the rails that can be paused.',
      access: 'read',
      participants: 'refused',
      answers: { 200: { description: 'Pauses, newest first, and rails.', schema: Pauses } },
      problems: [],
      example: {
        status: 200,
        answer: { pauses: [{ ...BODY, pausedBy: 'alice', pausedAt: EXAMPLE.at }], rails: [EXAMPLE.railType] },
      },
      handle: async () => ({
        pauses: await readPauses(roles.readonly),
        rails: await readKnownRails(roles.readonly),
      }),
    }),
    route({
      method: 'POST',
      path: '/v1/pauses',
      tag: 'pauses',
      summary: 'Pauses a rail, a participant, the ordered stream of a participant, or everything.',
      access: 'operate',
      participants: 'refused',
      body: PauseBody,
      answers: { 200: { description: 'The pause is in effect.', schema: Changed } },
      problems: ['INVALID_ARGUMENT', 'UNKNOWN_NAME'],
      example: { body: BODY, status: 200, answer: { changed: true } },
      handle: async ({ identity, body: { kind, name, reason, force } }) => {
        const control = roles.control(identity)
        const subject = nameOf(kind, name)
        if (force !== true) await requireKnownName(control, kind, subject)
        return { changed: await pauseOutbox(control, kind, subject, reason) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/pauses/resume',
      tag: 'pauses',
      summary: 'Ends a pause.',
      access: 'operate',
      participants: 'refused',
      body: ResumeBody,
      answers: { 200: { description: 'The pause has ended.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: { body: BODY, status: 200, answer: { changed: true } },
      handle: async ({ identity, body: { kind, name, reason } }) => ({
        changed: await resumeOutbox(roles.control(identity), kind, nameOf(kind, name), reason),
      }),
    }),
  ]
}

/** Returns the name of a pause: `all` for a pause of everything. */
function nameOf(kind: PauseKind, name: string | undefined): string {
  if (kind !== 'all' && name === undefined) throw new InvalidArgumentError('name', `expected the name of the ${kind}`)
  return name ?? 'all'
}
