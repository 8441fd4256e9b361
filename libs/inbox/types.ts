import type { JsonObject } from '../core/index.js'

export type InboxState = 'seen' | 'processing' | 'done' | 'dead'

/** Key of a message: its sender, and the sender's id of the message. Two senders may use the same ids. */
export interface InboxKey {
  /** @see requiredInboxId: 1 to 255 characters, not blank, no control characters */
  readonly source: string
  readonly messageId: string
}

export interface InboxMessage extends InboxKey {
  /** Topic, which selects the handler. */
  readonly topic: string
  readonly payload: JsonObject
  /** Earliest time of handling. @default now */
  readonly notBefore?: Date
}

/** Result of one delivery of a message. */
export interface Sighting {
  readonly state: InboxState
  /** Number of deliveries, including this one. */
  readonly sightings: bigint
  /** Whether this call stored the message. */
  readonly created: boolean
  /**
   * Whether the message is known with different content. The first content stays, an event records the difference, and
   * an operator should ask the sender.
   */
  readonly contentDiffers: boolean
}

export type ReceivedMessage = InboxKey & Sighting

/**
 * Content of a delivery, to compare with the first content of its key. The database hashes topic and payload, as it
 * does for `enqueue`, and stores only the hash.
 */
export interface MessageContent {
  readonly topic: string
  readonly payload: JsonObject
}

/**
 * Key of a claimed message and its fence, for `ack`, `abandon` and `fail`. The fence is a UUID that proves the claim.
 */
export interface InboxClaimRef extends InboxKey {
  readonly fence: string
}

export interface InboxClaim extends InboxClaimRef {
  readonly topic: string
  readonly payload: JsonObject
  /** Number of attempts that count, including this one. */
  readonly attemptCount: number
  readonly attemptsMax: number
  readonly sightings: bigint
  readonly claimExpiresAt: Date
  readonly claimedAt: Date
  readonly firstSeenAt: Date
  /** Whether this claim took the message over from an expired claim. */
  readonly takenOver: boolean
}

export interface ClaimFailure {
  /** Error text for operators. */
  readonly error?: string
}

export interface ClaimRetry extends ClaimFailure {
  /** Seconds until the next attempt. @default 5 s, 10 s, 20 s … at most 300 s, with jitter */
  readonly retryDelaySeconds?: number
}

/** Abandoned message: due again later, or dead after its last attempt. */
export type AbandonedMessage = InboxKey & { readonly state: 'seen' | 'dead' }

/** Counts and ages of the inbox: the row of the view `supervisor_inbox_status`. */
export interface InboxStats {
  readonly waitingCount: bigint
  readonly dueCount: bigint
  readonly processingCount: bigint
  readonly expiredClaimCount: bigint
  readonly deadCount: bigint
  readonly oldestDueAgeSeconds: number
  /** Number of messages that became dead within the last 15 minutes and are still dead. */
  readonly recentlyDeadCount: bigint
  readonly recentlyDeadAgeSeconds: number
}

/** Next due time or claim expiry, by the database's clock. */
export interface NextInboxEvent {
  readonly at: Date
  /** Milliseconds from now; negative if overdue. */
  readonly inMs: number
}

/** Message for operators, without payload and fence. */
export interface InboxMessageStatus extends InboxKey {
  /** Topic; null if the message is known only for deduplication. */
  readonly topic: string | null
  readonly state: InboxState
  readonly sightings: bigint
  readonly attemptCount: number
  readonly attemptsMax: number
  readonly dueAt: Date | null
  readonly firstSeenAt: Date
  readonly lastSeenAt: Date
  readonly endedAt: Date | null
  readonly lastError: string | null
  readonly claimedBy: string | null
  readonly claimExpiresAt: Date | null
}

export interface InboxEvent {
  readonly eventId: string
  readonly eventType: 'CONTENT_DIFFERS' | 'DIED' | 'REVIVED'
  readonly actor: string
  readonly detail: JsonObject
  readonly createdAt: Date
}
