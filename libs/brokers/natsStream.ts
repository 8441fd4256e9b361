/** Methods of `@nats-io/jetstream` that the rail calls. */
export interface NatsJetStream {
  publish(subject: string, data?: string, options?: NatsPublishOptions): Promise<NatsPubAck>
  jetstreamManager(checkAPI?: boolean): Promise<NatsJetStreamManager>
}

export interface NatsPublishOptions {
  readonly msgID?: string
  readonly timeout?: number
  readonly headers?: NatsHeaders
  readonly expect?: { readonly streamName?: string; readonly lastSubjectSequence?: number }
}

/** Result of the client's `headers()`. */
export interface NatsHeaders {
  set(name: string, value: string): void
}

export interface NatsPubAck {
  readonly stream: string
  readonly seq: number
}

export interface NatsJetStreamManager {
  readonly streams: {
    info(stream: string): Promise<NatsStreamInfo>
    getMessage(stream: string, query: { readonly last_by_subj: string }): Promise<{ readonly seq: number } | null>
  }
}

export interface NatsStreamInfo {
  readonly created: string
  readonly config: { readonly retention: string; readonly no_ack?: boolean }
  readonly state: NatsStreamState
}

export interface NatsStreamState {
  readonly messages: number
  readonly first_seq: number
  readonly first_ts: string
  readonly last_seq: number
}

/**
 * Returns why this stream cannot answer an inquiry; undefined if it can. Only the retention `limits` keeps consumed
 * messages. A work queue would report a consumed message as never stored.
 */
export function findStreamProblem({ config }: NatsStreamInfo): string | undefined {
  if (config.retention !== 'limits') {
    return `its retention is ${config.retention}, which removes consumed messages; expected limits, or onUnknown: "hold"`
  }
  return config.no_ack === true ? 'it acknowledges nothing (no_ack)' : undefined
}

/**
 * Returns whether the stream still has all messages since the creation of a payment. Only then does "not found" mean
 * "never stored": streams remove messages by age, by size and on request, and lose all when they are recreated.
 */
export function retainsEverythingSince(
  { created, state }: NatsStreamInfo,
  madeAt: Date | undefined,
  clocksApartMs: number,
): boolean {
  if (madeAt === undefined) return false
  const isBefore = (time: string) => Date.parse(time) + clocksApartMs <= madeAt.getTime()
  if (!isBefore(created)) return false
  const { messages, first_seq, first_ts, last_seq } = state
  const isWhole = messages === last_seq
  const hasNoGap = messages > 0 && messages === last_seq - first_seq + 1
  return isWhole || (hasNoGap && isBefore(first_ts))
}

/** Returns the time in an outbox id (UUIDv7); undefined for any other text. */
export function timeOfReference(reference: string): Date | undefined {
  const [, high = '', low = ''] = UUID_V7.exec(reference) ?? []
  return high === '' ? undefined : new Date(Number.parseInt(high + low, 16))
}

const UUID_V7 = /^([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i
