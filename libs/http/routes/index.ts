import type { Clock } from '../../core/index.js'
import type { Gate } from '../access/Gate.js'
import type { Api } from '../Api.js'
import type { StatusBoard } from '../StatusBoard.js'
import type { Streams } from '../stream/Streams.js'
import { contradictionRoutes } from './contradictions.js'
import { decisionRoutes } from './decisions.js'
import { dispatchRoutes } from './dispatch.js'
import { inboxRoutes } from './inbox.js'
import { instructionRoutes } from './instructions.js'
import { leaseRoutes } from './leases.js'
import { outboxRoutes } from './outbox.js'
import { overviewRoutes } from './overview.js'
import { pauseRoutes } from './pauses.js'
import type { Route } from './route.js'
import { schedulerRoutes } from './scheduler.js'
import { streamRoutes } from './stream.js'

interface ApiParts {
  readonly api: Api
  readonly board: StatusBoard
  readonly streams: Streams
  readonly gate: Gate
  readonly clock: Clock
}

/** Every route of the API, one file per subject. */
export function apiRoutes({ api, board, streams, gate, clock }: ApiParts): readonly Route[] {
  return [
    ...overviewRoutes(api, board),
    ...instructionRoutes(api, clock),
    ...outboxRoutes(api),
    ...decisionRoutes(api),
    ...contradictionRoutes(api),
    ...dispatchRoutes(api),
    ...pauseRoutes(api),
    ...schedulerRoutes(api),
    ...leaseRoutes(api),
    ...inboxRoutes(api),
    ...streamRoutes(streams, gate),
  ]
}
