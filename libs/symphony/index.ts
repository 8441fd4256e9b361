/**
 * Public object. A `Symphony` is one database with the rails and topics of a process. It chooses the role of each call
 * and composes the workers of the modules below.
 */
export type { Instruction, TopicHandlersOf } from './contracts.js'
export { Events } from './Events.js'
export type { EventStream, SymphonyEvent } from './Events.js'
export { Operator } from './Operator.js'
export type { PauseTarget } from './Operator.js'
export { Payments } from './Payments.js'
export type { PaymentEvent, PaymentKey, PaymentSearch } from './Payments.js'
export { addPostgresPlatform, PostgresPlatform } from './PostgresPlatform.js'
export { SYMPHONY_OPTIONS } from './options.js'
export type { EnqueueOptions, SymphonyOptions, WorkerOptions } from './options.js'
export { partsOf, Symphony } from './Symphony.js'
export type { AnySymphony, SymphonyParts } from './Symphony.js'
export { readSystemStatus } from './readSystemStatus.js'
export { databasesOf, SymphonyFleet } from './SymphonyFleet.js'
export type {
  AnyFleet,
  FleetEvent,
  FleetWorkerOptions,
  SymphonyFleetOptions,
  SymphonyFleetWorker,
} from './SymphonyFleet.js'
export { SymphonyWorker } from './SymphonyWorker.js'
export type { InboxWork, MaintenanceOptions, WorkerCounts } from './SymphonyWorker.js'
