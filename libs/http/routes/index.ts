import type { Clock } from '../../core/index.js'
import type { Authenticator } from '../access/Authenticator.js'
import type { Api } from '../Api.js'
import type { HttpLimits } from '../limits.js'
import type { StatusCache } from '../StatusCache.js'
import type { SseConnections } from '../stream/SseConnections.js'
import { contradictionRoutes } from './contradictions.js'
import { decisionRoutes } from './decisions.js'
import { dispatchRoutes } from './dispatch.js'
import { Exports } from './exports.js'
import { inboxRoutes } from './inbox.js'
import { instructionRoutes } from './instructions.js'
import { leaseRoutes } from './leases.js'
import { limitRoutes } from './limits.js'
import { outboxRoutes } from './outbox.js'
import { overviewRoutes } from './overview.js'
import { pauseRoutes } from './pauses.js'
import { reconciliationRoutes } from './reconciliations.js'
import { returnRoutes } from './returns.js'
import type { Route } from './route.js'
import { schedulerRoutes } from './scheduler.js'
import { seriesRoutes } from './series.js'
import { sessionRoutes, type SignIn } from './session.js'
import { statementRoutes } from './statements.js'
import { streamRoutes } from './stream.js'

interface ApiParts {
  readonly api: Api
  readonly statusCache: StatusCache
  readonly connections: SseConnections
  readonly authenticator: Authenticator
  readonly signIn: SignIn | undefined
  readonly limits: Required<HttpLimits>
  readonly clock: Clock
}

export function apiRoutes({
  api,
  statusCache,
  connections,
  authenticator,
  signIn,
  limits,
  clock,
}: ApiParts): readonly Route[] {
  const exports = new Exports(authenticator)
  const routes = [
    ...sessionRoutes(signIn),
    ...overviewRoutes(api, statusCache),
    ...seriesRoutes(api, clock),
    ...instructionRoutes(api, clock),
    ...outboxRoutes(api),
    ...statementRoutes(api, exports),
    ...decisionRoutes(api),
    ...contradictionRoutes(api),
    ...returnRoutes(api),
    ...dispatchRoutes(api),
    ...pauseRoutes(api),
    ...limitRoutes(api),
    ...reconciliationRoutes(api, limits),
    ...schedulerRoutes(api),
    ...leaseRoutes(api),
    ...inboxRoutes(api),
    ...streamRoutes(connections, authenticator),
  ]
  return exports.cover(routes)
}
