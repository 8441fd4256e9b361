import type { InboxKey } from './types.js'

interface AboutMessage extends InboxKey {
  readonly topic: string
  readonly attemptCount: number
}

/** Events of an inbox worker. Each type reports one kind of fact. Events contain no payload. */
export type InboxWorkerEvent =
  /** A claim returned, with or without messages. */
  | { readonly type: 'inbox.claimed'; readonly messages: number; readonly takeovers: number }
  /** A notification arrived, so a message may be due. */
  | { readonly type: 'inbox.notified' }
  /** The LISTEN connection opened or closed. Polling continues in both cases. */
  | { readonly type: 'inbox.listening'; readonly connected: boolean }
  /** The writes of the handler and the state `done` are committed. */
  | ({ readonly type: 'inbox.done' } & AboutMessage)
  /** The handler failed. The message is due again later. */
  | ({ readonly type: 'inbox.retried'; readonly error: unknown } & AboutMessage)
  /** The handler threw a `PermanentFailureError`, or the last attempt failed. An operator may revive the message. */
  | ({ readonly type: 'inbox.deadLettered'; readonly error: unknown } & AboutMessage)
  /** This worker has no handler for the topic. No attempt is counted. Deploy a worker that has one. */
  | ({ readonly type: 'inbox.handlerMissing' } & AboutMessage)
  /** The handler could not be called: no connection, or `handlerRole` is not granted. No attempt is counted. */
  | ({ readonly type: 'inbox.handlerNotCalled'; readonly error: unknown } & AboutMessage)
  /**
   * The claim ended before the handler, and the handler's writes were rolled back. This race is expected. Rarely, the
   * writes were committed and only the answer to COMMIT was lost.
   */
  | ({ readonly type: 'inbox.fenceLost' } & AboutMessage)
  /** An operation outside a handler failed. Its claims expire by themselves. */
  | { readonly type: 'inbox.fault'; readonly during: string; readonly error: unknown }

export type OnInboxWorkerEvent = (event: InboxWorkerEvent) => void
