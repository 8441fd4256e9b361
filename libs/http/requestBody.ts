import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
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
  readonly #collect: () => void
  #isDue = false
  #turns = 0

  constructor(collect: () => void = collectYoungObjects) {
    this.#collect = collect
  }

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
      this.#turns += 1
      if (this.#turns % TURNS_PER_COLLECTION === 0) this.#collect()
      this.#schedule()
    })
  }
}

/** Number of turns per garbage collection: about 4 MiB of bodies, because Node.js reads up to 64 KiB at once. */
const TURNS_PER_COLLECTION = 64

/**
 * Frees the bodies that Node.js has read, by a garbage collection of young objects (1 to 2 ms). V8 counts the bytes of
 * the bodies but collects young objects rarely. Without this call, a flood of large bodies starts a collection of the
 * whole heap (10 to 40 ms) about twice a second.
 */
export function collectYoungObjects(): void {
  if (collector === undefined) {
    // V8 offers its garbage collector only to contexts that are created with this flag.
    setFlagsFromString('--expose-gc')
    collector = runInNewContext('gc')
    setFlagsFromString('--no-expose-gc')
  }
  collector?.({ type: 'minor' })
}

let collector: ((options: { readonly type: 'minor' }) => void) | undefined

/** Returns the length of the body in bytes; for a chunked body, whose length is unknown, the maximum of the route. */
export function bodyBytes({ headers, routeOptions }: FastifyRequest): number {
  if (headers['transfer-encoding'] !== undefined) return routeOptions.bodyLimit ?? 0
  return Number(headers['content-length'] ?? 0)
}
