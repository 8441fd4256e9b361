import type { InboxKey } from './types.js'

interface AboutMessage extends InboxKey {
  readonly topic: string
  readonly attemptCount: number
}

/** Events of an inbox worker, one per fact. None carries a payload. */
export type InboxWorkerEvent =
  /** A claim was answered, with messages or without. */
  | { readonly type: 'inbox.claimed'; readonly messages: number; readonly takeovers: number }
  /** A notification arrived: there may be work. */
  | { readonly type: 'inbox.notified' }
  /** The LISTEN connection was made or lost; polling goes on in any case. */
  | { readonly type: 'inbox.listening'; readonly connected: boolean }
  /** The writes of the handler and the state `done` are committed. */
  | ({ readonly type: 'inbox.done' } & AboutMessage)
  /** The handler failed; the message is due again later. */
  | ({ readonly type: 'inbox.retried'; readonly error: unknown } & AboutMessage)
  /** The handler threw a `PermanentFailureError`, or the last attempt failed. An operator may revive the message. */
  | ({ readonly type: 'inbox.deadLettered'; readonly error: unknown } & AboutMessage)
  /** This worker has no handler for the topic. No attempt is counted. Deploy a worker that has one. */
  | ({ readonly type: 'inbox.handlerMissing' } & AboutMessage)
  /** The handler could not be called: no connection, or `handlerRole` is not granted. No attempt is counted. */
  | ({ readonly type: 'inbox.handlerNotCalled'; readonly error: unknown } & AboutMessage)
  /** The claim ended before the handler. A race, not an error: the writes of the handler were rolled back. */
  | ({ readonly type: 'inbox.fenceLost' } & AboutMessage)
  /** Another operation failed. Its claims expire by themselves. */
  | { readonly type: 'inbox.fault'; readonly during: string; readonly error: unknown }

export type OnInboxWorkerEvent = (event: InboxWorkerEvent) => void
