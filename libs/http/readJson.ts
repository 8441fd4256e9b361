import { NotJsonError, parseStrictJson, PAYLOAD_DEPTH_MAX, type JsonValue } from '../core/index.js'
import { ProblemError } from './Problem.js'

/**
 * The bytes of a body, read strictly: what JSON.parse would change in silence is refused, and named by its place. The engine
 * itself is not asked first: it reads brackets of any depth, which takes it longer than anything that is accepted.
 */
export function readJson(body: Buffer | undefined, bytesMax?: number): JsonValue {
  try {
    return parseStrictJson(body ?? Buffer.alloc(0), {
      depthMax: PAYLOAD_DEPTH_MAX + ENVELOPE_DEPTH,
      ...(bytesMax === undefined ? {} : { bytesMax }),
    })
  } catch (error) {
    throw error instanceof NotJsonError ? new ProblemError('MALFORMED_JSON', error.message) : error
  }
}

/** A batch, its list, and an instruction of it stand around a payload, which is measured by itself. */
const ENVELOPE_DEPTH = 3
