/**
 * Inbox: messages of other systems, each handled once. Source and id name a message. Its first content stays, even if a
 * duplicate differs.
 *
 * | state | moved by | a crash there leaves |
 * | --- | --- | --- |
 * | seen | `claimInboxBatch` (for a handler), `markInboxProcessing` (for deduplication only) | the row |
 * | processing | the holder of the claim by its fence (ack, abandon, fail); the next claim after expiry | a claim that expires; the attempt is counted |
 * | done | terminal; retention deletes it | the row, by which duplicates are recognised |
 * | dead | an operator with a reason (`reviveInboxMessage`) | the row, with the last error |
 *
 * SQL functions make all decisions; this module calls them. `InboxWorker` commits the writes of a handler together with
 * "done", so that they happen exactly once.
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
