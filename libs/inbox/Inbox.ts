import type { Database, Queryable } from '../db/index.js'
import {
  enqueueInboxMessage,
  enqueueInboxMessages,
  markInboxDead,
  markInboxProcessed,
  markInboxProcessing,
  recordInboxSighting,
} from './db.js'
import { InboxContentDiffersError } from './errors.js'
import type { EnqueuedMessage, InboxKey, InboxMessage, MessageContent } from './types.js'

/**
 * The inbox as an application sees it: put messages in for workers (`enqueue`), or remember for itself which ones it has
 * handled (`alreadyProcessed`, then `markProcessing`, then `markProcessed` or `markDead`).
 *
 * It promises that a key stands for one content for as long as the message is kept. To make a mark together with the work it
 * is about, call the function of the same name in `db.ts` with the transaction of that work.
 */
export class Inbox {
  readonly #ingest: Queryable
  readonly #executor: Queryable

  constructor(database: Pick<Database, 'as'>) {
    this.#ingest = database.as('symphony_ingest')
    this.#executor = database.as('symphony_executor')
  }

  /** Committed when it returns. `contentDiffers` in the result: the message is known, and this is not what it said. */
  enqueue(message: InboxMessage): Promise<EnqueuedMessage> {
    return enqueueInboxMessage(this.#ingest, message)
  }

  /** Up to 1000, in one transaction; answers come in the order given. */
  enqueueMany(messages: readonly InboxMessage[]): Promise<EnqueuedMessage[]> {
    return enqueueInboxMessages(this.#ingest, messages)
  }

  /**
   * Whether the message was handled. Counts a sighting, and remembers a message that is new. Given its content, it is
   * compared with what came first under this key: another one is an `InboxContentDiffersError`.
   */
  async alreadyProcessed(key: InboxKey, content?: MessageContent): Promise<boolean> {
    const { state, contentDiffers } = await recordInboxSighting(this.#executor, key, content)
    if (contentDiffers) throw new InboxContentDiffersError(key)
    return state === 'done'
  }

  /** Again after a crash, it counts another attempt. */
  markProcessing(key: InboxKey): Promise<void> {
    return markInboxProcessing(this.#executor, key)
  }

  markProcessed(key: InboxKey): Promise<void> {
    return markInboxProcessed(this.#executor, key)
  }

  markDead(key: InboxKey, error: string): Promise<void> {
    return markInboxDead(this.#executor, key, error)
  }
}
