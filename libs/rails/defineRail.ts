import type { JsonObject } from '../core/index.js'
import type { Rail } from './types.js'

/** Adds types, and nothing else: `request.payload` has the type that the `payload` schema accepts, or is any JSON object. */
export function defineRail<Payload extends object = JsonObject>(rail: Rail<Payload>): Rail<Payload> {
  return rail
}
