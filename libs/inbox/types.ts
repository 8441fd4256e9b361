import type { JsonObject } from '../core/index.js'

export type InboxState = 'seen' | 'processing' | 'done' | 'dead'

/** What names a message: who sent it, and what they call it. Two sources may use the same ids. */
export interface InboxKey {
  /** @see requiredInboxId: 1 to 255 characters, not blank, no control characters */
  readonly source: string
  readonly messageId: string
}

/** A message for a worker to handle. */
export interface InboxMessage extends InboxKey {
  /** What its handler is found by. */
  readonly topic: string
  readonly payload: JsonObject
  /** Not to be handled before. @default now */
  readonly notBefore?: Date
}

/** What the inbox knew when a message came in. */
export interface Sighting {
  readonly state: InboxState
  /** How often it came in, this time included. */
  readonly sightings: bigint
  /** This call brought it in. */
  readonly created: boolean
  /** It is known with another content. That one stays, an event was kept, and somebody should look at the sender. */
  readonly contentDiffers: boolean
}

export type ReceivedMessage = InboxKey & Sighting

/**
 * Content to compare a sighting by; only its hash is stored. It has topic and payload, because the same message may also be
 * enqueued, which hashes both.
 */
export interface MessageContent {
  readonly topic: string
  readonly payload: JsonObject
}

/** Claimed message, as `ack`, `abandon` and `fail` need it: its key, and the fence of its claim. */
export interface InboxClaimRef extends InboxKey {
  readonly fence: string
}

export interface InboxClaim extends InboxClaimRef {
  readonly topic: string
  readonly payload: JsonObject
  /** Claims so far, this one included. */
  readonly attemptCount: number
  readonly attemptsMax: number
  readonly sightings: bigint
  readonly claimExpiresAt: Date
  readonly claimedAt: Date
  readonly firstSeenAt: Date
  /** Whether an earlier claim of the message expired without an answer. */
  readonly takenOver: boolean
}

export interface ClaimFailure {
  /** What went wrong, for the person who looks. */
  readonly error?: string
}

export interface ClaimRetry extends ClaimFailure {
  /** @default 5 s, 10 s, 20 s … at most 300 s, spread */
  readonly retryDelaySeconds?: number
}

/** An abandoned message is due again later, or dead if that was its last attempt. */
export type AbandonedMessage = InboxKey & { readonly state: 'seen' | 'dead' }

/** Counts and ages of the inbox: the row of the view `supervisor_inbox_status`. */
export interface InboxStats {
  readonly waitingCount: bigint
  readonly dueCount: bigint
  readonly processingCount: bigint
  readonly expiredClaimCount: bigint
  readonly deadCount: bigint
  readonly oldestDueAgeSeconds: number
  /** Died within the last 15 minutes, and still dead. */
  readonly recentlyDeadCount: bigint
  readonly recentlyDeadAgeSeconds: number
}

/** The nearest thing that will happen, by the database's clock. */
export interface NextInboxEvent {
  readonly at: Date
  /** From now; negative for what is overdue. */
  readonly inMs: number
}

/** A message as operators see it: no payload, no fence. */
export interface InboxMessageStatus extends InboxKey {
  /** Null: known only for deduplication. */
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
