import type { Rail } from './types.js'

/** Adds types, and nothing else: `request.payload` has the type that the `payload` schema accepts. */
export function defineRail<Payload extends object>(rail: Rail<Payload>): Rail<Payload> {
  return rail
}
