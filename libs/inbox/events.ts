import type { InboxKey } from './types.js'

interface AboutMessage extends InboxKey {
  readonly topic: string
  readonly attemptCount: number
}

/** What an inbox worker says about its work, one event per fact. None carries a payload. */
export type InboxWorkerEvent =
  /** A claim came back, empty or not. */
  | { readonly type: 'claimed'; readonly messages: number; readonly takeovers: number }
  /** A notification was heard: there may be work. */
  | { readonly type: 'notified' }
  /** Notifications can be heard, or no longer; polling goes on in any case. */
  | { readonly type: 'listening'; readonly connected: boolean }
  /** Committed: what the handler wrote, and that it is done. */
  | ({ readonly type: 'done' } & AboutMessage)
  /** The handler failed; the message is due again later. */
  | ({ readonly type: 'retried'; readonly error: unknown } & AboutMessage)
  /** By the handler's word, or because this was the last attempt. A person may revive it. */
  | ({ readonly type: 'died'; readonly error: unknown } & AboutMessage)
  /** No handler here knows this topic. It costs no attempt; somebody should look. */
  | ({ readonly type: 'handlerMissing' } & AboutMessage)
  /** Its handler could not be called: no connection, or a role not granted. It costs no attempt; somebody should look. */
  | ({ readonly type: 'notBegun'; readonly error: unknown } & AboutMessage)
  /** The claim had ended first. A race, not an error: what the handler wrote was rolled back. */
  | ({ readonly type: 'fenceLost' } & AboutMessage)
  /** Something else failed. Claims in hand end by themselves. */
  | { readonly type: 'fault'; readonly during: string; readonly error: unknown }

export type OnInboxWorkerEvent = (event: InboxWorkerEvent) => void
