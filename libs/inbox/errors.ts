import { SymphonyError } from '../core/index.js'
import type { InboxKey } from './types.js'

/**
 * A message is known with another content than the one that came now. The first one stands, and an event was written. Thrown
 * where the answer is only yes or no; `enqueue` says it in its result.
 */
export class InboxContentDiffersError extends SymphonyError {
  readonly source: string
  readonly messageId: string

  constructor({ source, messageId }: InboxKey) {
    super('INBOX_CONTENT_DIFFERS', 'this message is known with another content, which stands', {
      remedy: 'Do not handle it. Ask the sender why two contents have one id; see symphony inbox show.',
    })
    this.source = source
    this.messageId = messageId
  }
}

/** The claim had ended when its handler did: expired, or taken over. What the handler wrote was rolled back. */
export class InboxFenceLostError extends SymphonyError {
  constructor() {
    super('INBOX_FENCE_LOST', 'the claim had ended before the message was handled: nothing of it was committed', {
      remedy: 'Give handlers less to do, or claims more time: leaseSeconds.',
    })
  }
}
