/**
 * The inbox: messages of other systems, each handled once. A message is named by its source and its id, and stands for the
 * content that came first.
 *
 * | state | who moves it | a crash there leaves |
 * | --- | --- | --- |
 * | seen | `claimInboxBatch` (work), `markInboxProcessing` (known for deduplication alone) | the row |
 * | processing | the holder of the claim, by its fence: ack, abandon, fail; the next claim, once it expired | a claim that expires; the attempt is counted |
 * | done | nobody; retention forgets it | the row, by which duplicates are recognised |
 * | dead | a person, with a reason: `reviveInboxMessage` | the row, with the last error |
 *
 * All of it is decided by SQL functions; this module calls them. `InboxWorker` commits what a handler writes together with
 * "done", so that its effect happens exactly once.
 */
export {
  abandonInboxMessages,
  ackInboxMessages,
  claimInboxBatch,
  enqueueInboxMessage,
  enqueueInboxMessages,
  failInboxMessages,
  markInboxDead,
  markInboxProcessed,
  markInboxProcessing,
  nextInboxEvent,
  purgeInboxMessages,
  readInboxEvents,
  readInboxStats,
  readInboxMessage,
  readInboxMessages,
  recordInboxSighting,
  reviveInboxMessage,
} from './db.js'
export { readInboxPage } from './reads.js'
export type { InboxMessageRow, InboxCursor } from './reads.js'
export { InboxContentDiffersError, InboxFenceLostError } from './errors.js'
export type { InboxWorkerEvent, OnInboxWorkerEvent } from './events.js'
export { Inbox } from './Inbox.js'
export type { InboxClaimOptions, InboxOptions, InboxRetentionOptions } from './Inbox.js'
export { InboxWorker } from './InboxWorker.js'
export type { InboxHandler, InboxHandlerContext, InboxWorkerCounts } from './InboxWorker.js'
export { InboxWorkerOptionError } from './options.js'
export type { InboxWorkerOptions } from './options.js'
export type {
  AbandonedMessage,
  InboxClaim,
  ClaimFailure,
  ClaimRetry,
  ReceivedMessage,
  InboxClaimRef,
  InboxEvent,
  InboxStats,
  InboxKey,
  InboxMessage,
  InboxMessageStatus,
  InboxState,
  NextInboxEvent,
  MessageContent,
  Sighting,
} from './types.js'
