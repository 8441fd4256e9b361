/**
 * The bounds of every input, in one place. The same numbers stand again in `schema/` because the database is the
 * authority; these exist so that a caller is refused before any I/O, with the argument named.
 */

/** Instruction, participant, idempotency key, rail type, worker id: printable ASCII without spaces. */
export const ID_LENGTH_MAX = 128

/** The source and id of an inbox message: what other systems call their messages, any text without control characters. */
export const INBOX_ID_LENGTH_MAX = 255

/** Measured on the text that jsonb prints, which has a space after each `:` and `,`. */
export const PAYLOAD_BYTES_MAX = 65_536

/** The outer object counts as 1. */
export const PAYLOAD_DEPTH_MAX = 32

/** |n| < 10^21: beyond it JavaScript switches to exponents, and `1e131071` would expand to 128 KiB inside jsonb. */
export const NUMBER_MAGNITUDE = 21

/** Digits after the point, as `scale(numeric)` counts them. */
export const NUMBER_SCALE_MAX = 20

/**
 * Longest number literal read from JSON text: sign, 21 digits, point and 20 digits are 43; the rest is slack. A longer
 * one is refused unread, because counting its digits would be the most expensive part of the request.
 */
export const NUMBER_LITERAL_LENGTH_MAX = 64

/** JSON text read from HTTP or a file, unless the reader asks for more: one payload with room for its envelope. */
export const JSON_TEXT_BYTES_MAX = 262_144

export const LEASE_SECONDS = Object.freeze({ min: 1, max: 3_600 })

/** Of a lease on a resource. Shorter, and one slow round trip costs it; longer, and a crashed holder blocks for hours. */
export const LEASE_DURATION_MS = Object.freeze({ min: 1_000, max: 3_600_000 })

export const BATCH_SIZE = Object.freeze({ min: 1, max: 1_000 })

/** Text a rail hands back goes into a ledger that nobody may edit, so it is bounded before it gets there. */
export const ERROR_CODE_LENGTH_MAX = 128
export const ERROR_MESSAGE_LENGTH_MAX = 2_000
export const RAIL_REFERENCE_LENGTH_MAX = 255

/** Why a person placed a hold, asked for a redrive, paused a rail. */
export const REASON_LENGTH_MAX = 1_000
