import { SymphonyError } from '../core/index.js'
import type { InboxKey } from './types.js'

/**
 * The message is known with different content. The first content stays, and the database has recorded an event. Thrown
 * by methods that return only a boolean; `enqueue` reports the difference in its result.
 */
export class InboxContentDiffersError extends SymphonyError {
  readonly source: string
  readonly messageId: string

  constructor({ source, messageId }: InboxKey) {
    super('INBOX_CONTENT_DIFFERS', 'this message is known with different content; the first content stays', {
      remedy: 'Do not handle this message. Ask the sender why two contents share one id (symphony inbox show).',
    })
    this.source = source
    this.messageId = messageId
  }
}

/** The claim expired or was taken over before its handler ended. The handler's writes were rolled back. */
export class InboxFenceLostError extends SymphonyError {
  constructor() {
    super('INBOX_FENCE_LOST', 'the claim ended before the handler did; nothing was committed', {
      remedy: 'Shorten the handler, or raise leaseSeconds.',
    })
  }
}
