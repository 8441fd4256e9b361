import type { Authenticator } from '../access/Authenticator.js'
import { ProblemError, PROBLEMS } from '../Problem.js'
import { ItemsEvent } from '../shapes/overview.js'
import type { SseConnections } from '../stream/SseConnections.js'
import { route, type Route } from './route.js'

export function streamRoutes(connections: SseConnections, authenticator: Authenticator): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/stream',
      tag: 'overview',
      summary:
        'Stream of changes: the event `status` when counts change, `items` with changed payments, and `looked` once per second while the database answers.',
      access: 'read',
      participants: 'filtered',
      answers: {
        200: {
          description: `Server-sent events until either side closes the connection. The data of \`items\` is ${JSON.stringify(ItemsEvent)}`,
          contentType: 'text/event-stream',
        },
      },
      problems: ['STREAMS_EXHAUSTED'],
      example: { status: 200, answer: 'retry: 1000\n\n' },
      handle: async ({ identity, request, reply }) => {
        if (request.method === 'HEAD') return reply.type('text/event-stream').serializer(String).send('')
        connections.requireCapacity(identity)
        const isStillAllowed = async () => {
          try {
            return (await authenticator.identify(request)).scopes.includes('read')
          } catch (error) {
            // Only a 401 ends the stream. An unreachable database or provider does not mean that the key was revoked.
            return !(error instanceof ProblemError && PROBLEMS[error.code].status === 401)
          }
        }
        for (const [name, value] of Object.entries(reply.getHeaders())) {
          if (value !== undefined) reply.raw.setHeader(name, value)
        }
        // From here on the stream owns the response: Fastify neither writes nor ends it.
        reply.hijack()
        // A client that left during the authorization has already caused the `close` event, so nothing would end its stream.
        if (reply.raw.destroyed) return
        connections.add(identity, reply.raw, isStillAllowed)
      },
    }),
  ]
}
