import { Type, type Static } from '#typebox'
import { readLeasePage } from '../../lease/index.js'
import type { Api } from '../Api.js'
import { Id, oneOf, pageOf, shape, Timestamp, WholeNumber } from '../shapes/common.js'
import { EXAMPLE } from './examples.js'
import { decodeCursor, encodeCursor, LIMIT_DEFAULT, page, TEXT_PART } from './parameters.js'
import { route, type Route } from './route.js'

/** Lease with its current or last holder. Omits the lease id, which is the secret that renewing and releasing need. */
export const LeaseView = shape({
  resource: Id,
  owner: Type.String(),
  state: oneOf(['HELD', 'EXPIRED', 'RELEASED']),
  fencingToken: WholeNumber,
  acquiredAt: Timestamp,
  renewedAt: Timestamp,
  expiresAt: Timestamp,
})
export type LeaseView = Static<typeof LeaseView>

export const LeasePage = pageOf(LeaseView)
export type LeasePage = Static<typeof LeasePage>

const LEASES = { list: 'leases', parts: { resource: TEXT_PART } }

export function leaseRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/leases',
      tag: 'leases',
      summary: 'Leases and their holders, by resource.',
      access: 'read',
      participants: 'refused',
      query: {
        released: Type.Optional(Type.Boolean({ description: 'also released leases; default false' })),
        ...page,
      },
      answers: { 200: { description: 'A page of leases.', schema: LeasePage } },
      problems: ['INVALID_QUERY'],
      example: {
        query: { released: 'true' },
        status: 200,
        answer: {
          items: [
            {
              resource: 'reports',
              owner: 'node-1',
              state: 'HELD',
              fencingToken: '42',
              acquiredAt: EXAMPLE.at,
              renewedAt: EXAMPLE.at,
              expiresAt: EXAMPLE.at,
            },
          ],
          next: null,
        },
      },
      handle: async ({ query: { released = false, cursor, limit = LIMIT_DEFAULT } }) => {
        const after = decodeCursor(LEASES, cursor)?.resource
        const items = await readLeasePage(roles.readonly, { released, after, limit })
        const last = items.length === limit ? items.at(-1) : undefined
        return { items, next: last === undefined ? null : encodeCursor(LEASES, { resource: last.resource }) }
      },
    }),
  ]
}
