import { parseStrictJson, PAYLOAD_DEPTH_MAX, type JsonValue } from '../core/index.js'
import { ProblemError } from './Problem.js'

/** The bytes of a body, read strictly: what JSON.parse would change in silence is refused, and named by its place. */
export function readJson(body: Buffer | undefined, bytesMax?: number): JsonValue {
  const bytes = body ?? Buffer.alloc(0)
  if (!isJson(bytes)) throw new ProblemError('MALFORMED_JSON')
  return parseStrictJson(bytes, {
    depthMax: PAYLOAD_DEPTH_MAX + ENVELOPE_DEPTH,
    ...(bytesMax === undefined ? {} : { bytesMax }),
  })
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString())
    return true
  } catch {
    return false
  }
}

/** A batch, its list, and an instruction of it stand around a payload, which is measured by itself. */
const ENVELOPE_DEPTH = 3
