/**
 * Limits of inputs. `schema/` has the same numbers and enforces them. These constants refuse a call before any I/O,
 * with an error that names the argument.
 */

/**
 * Maximum length of an instruction id, participant id, idempotency key, rail type or worker id: printable ASCII without
 * spaces.
 */
export const ID_LENGTH_MAX = 128

/**
 * Maximum length of the source and of the id of an inbox message: any text without control characters, because other
 * systems choose them.
 */
export const INBOX_ID_LENGTH_MAX = 255

/** Maximum size of a payload: bytes of the text that jsonb prints, which has a space after each `:` and `,`. */
export const PAYLOAD_BYTES_MAX = 65_536

/** Maximum depth of nesting. The outer object counts as 1. */
export const PAYLOAD_DEPTH_MAX = 32

/**
 * Exponent of the limit |n| < 10^21. JavaScript writes larger numbers with an exponent, and `1e131071` would expand to
 * 128 KiB inside jsonb.
 */
export const NUMBER_MAGNITUDE = 21

/** Maximum number of digits after the point, as `scale(numeric)` counts them. */
export const NUMBER_SCALE_MAX = 20

/**
 * Maximum length of a number literal in JSON text: sign, 21 digits, point and 20 digits are 43, and the rest is a
 * reserve. A longer literal is refused before its digits are counted, because counting is expensive.
 */
export const NUMBER_LITERAL_LENGTH_MAX = 64

/** Default maximum size of JSON text from HTTP or a file. One payload and its envelope fit. */
export const JSON_TEXT_BYTES_MAX = 262_144

export const LEASE_SECONDS = Object.freeze({ min: 1, max: 3_600 })

/**
 * Bounds of the duration of a named lease. A shorter lease could expire during a slow round trip; with a longer lease,
 * the resource would stay blocked for hours after a crash of its holder.
 */
export const LEASE_DURATION_MS = Object.freeze({ min: 1_000, max: 3_600_000 })

/** Window of a limit on payments: at most 31 days. */
export const LIMIT_WINDOW_SECONDS = Object.freeze({ min: 60, max: 2_678_400 })

export const BATCH_SIZE = Object.freeze({ min: 1, max: 1_000 })

/** Maximum lengths of text from a rail. The ledger is append-only, so such text is bounded before it is stored. */
export const ERROR_CODE_LENGTH_MAX = 128
export const ERROR_MESSAGE_LENGTH_MAX = 2_000
export const RAIL_REFERENCE_LENGTH_MAX = 255

/** Maximum length of an operator's reason for a hold, a redrive or a pause. */
export const REASON_LENGTH_MAX = 1_000

/** Maximum length of the name of a person, such as the owner of an API key. */
export const PERSON_LENGTH_MAX = 200
