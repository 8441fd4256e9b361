import { Type } from '#typebox'
import { parseTimestamp } from '../../core/index.js'
import { readStatement, STATEMENT_FIELDS } from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { Id, oneOf } from '../shapes/common.js'
import { EXAMPLE } from './examples.js'
import { EXPORT_TYPES, type Exports } from './exports.js'
import { requireParticipant } from './parameters.js'
import { route, type Route } from './route.js'

const Time = Type.String({
  pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]{5,15}(?:Z|[+-][0-9]{2}:[0-9]{2}))?$',
  description: 'a day in UTC (2026-01-31), or a time with its zone (2026-01-31T08:00:00Z)',
})

export function statementRoutes({ roles }: Api, exports: Exports): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/participants/{participantId}/statement',
      tag: 'payments',
      summary:
        'Statement of a participant: payments that were pending at `from` or created until `to`, returns, and sums per currency and state.',
      access: 'read',
      participants: 'filtered',
      params: { participantId: Id },
      query: { from: Time, to: Time, format: Type.Optional(oneOf(['csv', 'ndjson'], 'default csv')) },
      answers: {
        200: {
          description: `A file. Fields of a line: ${STATEMENT_FIELDS.join(', ')}.`,
          contentType: EXPORT_TYPES[0]!,
          otherTypes: EXPORT_TYPES.slice(1),
        },
      },
      problems: ['INVALID_QUERY', 'INVALID_ARGUMENT', 'PARTICIPANT_REFUSED', 'UNKNOWN_NAME'],
      invalid: 'INVALID_QUERY',
      example: {
        params: { participantId: EXAMPLE.participantId },
        query: { from: '2020-01-01', to: '2020-02-01' },
        status: 200,
        answer: `${STATEMENT_FIELDS.join(',')}\r\n`,
      },
      handle: async ({ identity, params: { participantId }, query, request, reply }) => {
        requireParticipant(identity, participantId)
        const period = { from: timeOf('from', query.from), to: timeOf('to', query.to) }
        return exports.send(request, reply, {
          name: 'statement',
          format: query.format ?? 'csv',
          columns: STATEMENT_FIELDS.map((field) => [field]),
          pages: readStatement(roles.readonly, { participantId, ...period }),
        })
      },
    }),
  ]
}

function timeOf(argument: string, text: string): Date {
  const time = parseTimestamp(text.length === 10 ? `${text}T00:00:00Z` : text)
  if (time !== undefined) return time
  throw new ProblemError('INVALID_QUERY', `${argument}: expected a day such as 2026-01-31, or a time with its zone`, {
    argument,
  })
}
