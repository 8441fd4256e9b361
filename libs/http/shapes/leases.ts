import { Type, type Static } from 'typebox'
import { Id, oneOf, pageOf, shape, Timestamp, WholeNumber } from './common.js'

/** Who holds what, or held it last. Never the lease id, with which one could release another's. */
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
