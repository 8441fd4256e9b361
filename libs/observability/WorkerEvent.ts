import type { InboxWorkerEvent } from '../inbox/index.js'
import type { LeaseEvent } from '../lease/index.js'
import type { SealerEvent, VerifierEvent } from '../ledger/index.js'
import type { RelayerEvent } from '../outbox/index.js'
import type { CleanupEvent, PlatformEvent } from '../platform/index.js'
import type { RepairEvent } from '../repair/index.js'
import type { SchedulerEvent } from '../scheduler/index.js'

export type WorkerEvent =
  | RelayerEvent
  | RepairEvent
  | SealerEvent
  | VerifierEvent
  | CleanupEvent
  | InboxWorkerEvent
  | SchedulerEvent
  | LeaseEvent
  | PlatformEvent

/** Returns whether an event belongs to a module. For example, `outbox.held` belongs to `outbox`. */
export function isOfModule<Module extends string>(
  module: Module,
  event: WorkerEvent,
): event is Extract<WorkerEvent, { readonly type: `${Module}.${string}` }> {
  return event.type.startsWith(`${module}.`)
}
