import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { FastifyReply } from 'fastify'
import { Type } from '#typebox'
import {
  ArgumentRangeError,
  InvalidArgumentError,
  isObject,
  requiredId,
  requiredInboxId,
  systemClock,
  type Clock,
  type JsonObject,
  type JsonPointer,
  type JsonValue,
} from '../../core/index.js'
import { enqueueInboxMessage, type ReceivedMessage, type InboxMessage } from '../../inbox/index.js'
import { ProblemError } from '../Problem.js'
import { parseBody } from '../requestBody.js'
import { JsonObjectShape } from '../shapes/common.js'
import { resolveWebhookSource, type ResolvedWebhookSource, type WebhookSources } from '../webhookSources.js'
import { InboxStateShape } from './inbox.js'
import type { Route } from './route.js'

type Role = Parameters<typeof enqueueInboxMessage>[0]

export interface WebhookReceiver {
  /** Role symphony_ingest. */
  readonly ingest: Role
  readonly sources: WebhookSources
  /** Called with the result of each message after its COMMIT. */
  readonly onReceived?: (message: ReceivedMessage) => void
  /** @default the system's */
  readonly clock?: Clock
}

interface Received {
  readonly body: Buffer
  readonly headers: IncomingHttpHeaders
}

/**
 * `POST /v1/webhooks/{source}`. The signature authenticates the sender. Answers 202 for a new message, 200 for a known
 * one and 409 for a known id with other content. Each answer follows COMMIT, so a sender may safely repeat.
 */
export function webhookRoutes({ ingest, sources, onReceived, clock = systemClock }: WebhookReceiver): readonly Route[] {
  const known = new Map(Object.entries(sources).map(([name, given]) => [name, resolveWebhookSource(name, given)]))
  return [
    {
      method: 'POST',
      path: '/v1/webhooks/{source}',
      tag: 'inbox',
      summary: 'Records a signed message of another system in the inbox, once. Answers only after COMMIT.',
      access: 'signature',
      participants: 'filtered',
      params: Type.Object({ source: Type.String() }),
      body: JsonObjectShape,
      bodyLimit: BODY_BYTES_MAX,
      rawBody: true,
      answers: {
        202: { description: 'The message is new.', schema: MessageReceived },
        200: { description: 'The message is known.', schema: MessageReceived },
      },
      problems: [
        'WEBHOOK_SOURCE_UNKNOWN',
        'SIGNATURE_INVALID',
        'TIMESTAMP_OUT_OF_TOLERANCE',
        'CONTENT_DIFFERS',
        'INVALID_MESSAGE',
      ],
      handle: async ({ params, headers, body }, reply) => {
        const name = sourceIn(params)
        const source = known.get(name)
        if (source === undefined) throw new ProblemError('WEBHOOK_SOURCE_UNKNOWN')
        const received = { headers, body: Buffer.isBuffer(body) ? body : Buffer.alloc(0) }
        requireSignature(source, received, clock)
        try {
          const enqueued = await enqueueInboxMessage(ingest, messageIn(name, source, received))
          onReceived?.(enqueued)
          return answer(enqueued, reply)
        } catch (error) {
          throw asMessageProblem(error)
        }
      },
    },
  ]
}

const MessageReceived = Type.Object({
  source: Type.String(),
  messageId: Type.String(),
  state: InboxStateShape,
  created: Type.Boolean(),
})

function sourceIn(params: unknown): string {
  return typeof params === 'object' && params !== null && 'source' in params ? String(params.source) : ''
}

/** Answers the sender. The statement that stored the message has already committed. */
function answer({ source, messageId, state, created, contentDiffers }: ReceivedMessage, reply: FastifyReply): object {
  if (contentDiffers) {
    throw new ProblemError('CONTENT_DIFFERS', 'The first content stays. A new message needs a new id.')
  }
  void reply.code(created ? 202 : 200)
  return { source, messageId, state, created }
}

function requireSignature(source: ResolvedWebhookSource, { headers, body }: Received, clock: Clock): void {
  const timestamp = headerOf(headers, source.timestampHeader)
  const signature = headerOf(headers, source.signatureHeader)
  // The signed text includes an id in a header. Otherwise an attacker could resend a recorded webhook under another
  // id.
  const id = 'header' in source.messageId ? [headerOf(headers, source.messageId.header)] : []
  if (!isSigned(source.keys, [...id, timestamp, body], signature)) throw new ProblemError('SIGNATURE_INVALID')
  // The time is checked after the signature, so that an unknown sender learns nothing about this server's clock.
  const ageSeconds = clock.now().getTime() / 1_000 - Number(timestamp)
  if (!TIMESTAMP.test(timestamp) || Math.abs(ageSeconds) > source.toleranceSeconds) {
    throw new ProblemError(
      'TIMESTAMP_OUT_OF_TOLERANCE',
      `Expected seconds since 1970, at most ${source.toleranceSeconds} from now. Sign each attempt again.`,
    )
  }
}

function messageIn(name: string, source: ResolvedWebhookSource, { headers, body }: Received): InboxMessage {
  const payload = parseBody(body)
  if (!isObject(payload)) throw new InvalidArgumentError('body', 'expected a JSON object')
  const messageId =
    'header' in source.messageId
      ? headerOf(headers, source.messageId.header)
      : textAt(source.messageId.pointer, payload)
  const topic = 'fixed' in source.topic ? source.topic.fixed : textAt(source.topic.pointer, payload)
  return {
    source: name,
    messageId: requiredInboxId('messageId', messageId),
    topic: requiredId('topic', topic),
    payload,
  }
}

/** Turns an invalid argument into INVALID_MESSAGE. Returns any other error unchanged. */
function asMessageProblem(error: unknown): unknown {
  const isArgument = error instanceof InvalidArgumentError || error instanceof ArgumentRangeError
  return isArgument ? new ProblemError('INVALID_MESSAGE', error.message) : error
}

/** Returns a message id or topic. Returns a number as text, because some senders use numbers. */
function textAt(pointer: JsonPointer, payload: JsonObject): JsonValue | undefined {
  const value = pointer(payload)
  return typeof value === 'number' ? String(value) : value
}

function headerOf(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name]
  return typeof value === 'string' ? value : ''
}

const BODY_BYTES_MAX = 65_536
const TIMESTAMP = /^\d{1,12}$/

/**
 * Returns whether one of the signatures is the HMAC-SHA256 of the parts, joined by full stops, under one of the keys.
 * Tries every key with every signature, each in constant time.
 */
function isSigned(keys: readonly Buffer[], parts: readonly [...text: string[], body: Buffer], shown: string): boolean {
  const signatures = readSignatures(shown)
  let found = false
  for (const key of keys) {
    const hmac = createHmac('sha256', key)
    parts.forEach((part, index) => hmac.update(index === 0 ? '' : '.').update(part))
    const expected = hmac.digest()
    for (const signature of signatures) found = timingSafeEqual(signature, expected) || found
  }
  return found
}

/** Parses `v1,BASE64 v1,BASE64`, `sha256=HEX` or a bare signature. Drops signatures of another length than SHA-256. */
function readSignatures(shown: string): readonly Buffer[] {
  return [...shown.matchAll(SIGNATURE)].slice(0, SIGNATURES_MAX).flatMap(([, text = '']) => {
    const signature = Buffer.from(text, text.length === HEX_LENGTH ? 'hex' : 'base64')
    return signature.length === SHA256_BYTES ? [signature] : []
  })
}

const SIGNATURE = /(?:^|[\s,=])([0-9a-f]{64}|[a-z0-9+/]{43}=)(?=$|[\s,])/gi
const SIGNATURES_MAX = 10
const HEX_LENGTH = 64
const SHA256_BYTES = 32
