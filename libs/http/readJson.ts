import { parseStrictJson, PAYLOAD_DEPTH_MAX, type JsonValue } from '../core/index.js'
import { ProblemError } from './Problem.js'

/** The body of a request, which was left as bytes. */
export function readJson(body: Buffer | undefined): JsonValue {
  const bytes = body ?? Buffer.alloc(0)
  if (!isJson(bytes)) throw new ProblemError('MALFORMED_JSON')
  // What is JSON and refused all the same (a key twice, digits that would be lost) is named by its place.
  return parseStrictJson(bytes, { depthMax: PAYLOAD_DEPTH_MAX + 1 })
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString())
    return true
  } catch {
    return false
  }
}
