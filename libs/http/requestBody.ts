import type { FastifyRequest } from 'fastify'
import { JsonSyntaxError, parseStrictJson, PAYLOAD_DEPTH_MAX, type JsonValue } from '../core/index.js'
import { ProblemError } from './Problem.js'

/**
 * Parses a body strictly. The error names the position of a value that JSON.parse would change silently. Does not call
 * JSON.parse first, because JSON.parse accepts any depth: deeply nested brackets take it longer than any valid body.
 */
export function parseBody(body: Buffer | undefined, bytesMax?: number): JsonValue {
  try {
    return parseStrictJson(body ?? Buffer.alloc(0), {
      depthMax: PAYLOAD_DEPTH_MAX + ENVELOPE_DEPTH,
      ...(bytesMax === undefined ? {} : { bytesMax }),
    })
  } catch (error) {
    throw error instanceof JsonSyntaxError ? new ProblemError('MALFORMED_JSON', error.message) : error
  }
}

/** Levels of JSON around a payload: the batch, its list and the instruction. */
const ENVELOPE_DEPTH = 3

/**
 * Lets one large request continue per turn of the event loop, in order of arrival, so that short requests run in
 * between.
 */
export class LargeRequestQueue {
  readonly #waiting: (() => void)[] = []
  #isDue = false

  /** Resolves when the caller may continue. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#schedule()
    })
  }

  #schedule(): void {
    if (this.#isDue || this.#waiting.length === 0) return
    this.#isDue = true
    setImmediate(() => {
      this.#isDue = false
      this.#waiting.shift()?.()
      this.#schedule()
    })
  }
}

/** Returns the length of the body in bytes; for a chunked body, whose length is unknown, the maximum of the route. */
export function bodyBytes({ headers, routeOptions }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined) return routeOptions.bodyLimit ?? 0
  return Number(headers['content-length'] ?? 0)
}
