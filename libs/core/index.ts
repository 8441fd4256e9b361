/** Strict input, errors, JSON and clocks: pure, without I/O and without imports from other modules. */
export {
  SymphonyError,
  ArgumentRangeError,
  hasCode,
  InvalidArgumentError,
  InvalidPayloadError,
  isPermanentFailure,
  PermanentFailureError,
} from './SymphonyError.js'
export type { ArgumentName } from './SymphonyError.js'
export type { ErrorCode, PostgresErrorCode } from './ErrorCode.js'
export {
  boundedInteger,
  definedOptions,
  kindOf,
  nearestSpelling,
  rejectUnknownKeys,
  requiredObject,
  requiredText,
  requireKnownOptions,
} from './arguments.js'
export type { Bounds } from './arguments.js'
export { parseTimestamp, systemClock } from './clock.js'
export type { Clock } from './clock.js'
export { csvRecord } from './csv.js'
export {
  compactUuid,
  createWorkerId,
  isUuid,
  requiredId,
  requiredIdempotencyKey,
  requiredInboxId,
  requiredUuid,
} from './ids.js'
export { canonicalJson, compileJsonPointer, indexPath, isObject, keyPath } from './json.js'
export type { JsonObject, JsonPointer, JsonValue } from './json.js'
export {
  BATCH_SIZE,
  ERROR_CODE_LENGTH_MAX,
  ERROR_MESSAGE_LENGTH_MAX,
  ID_LENGTH_MAX,
  INBOX_ID_LENGTH_MAX,
  JSON_TEXT_BYTES_MAX,
  LEASE_DURATION_MS,
  LEASE_SECONDS,
  LIMIT_WINDOW_SECONDS,
  NUMBER_MAGNITUDE,
  NUMBER_SCALE_MAX,
  PAYLOAD_BYTES_MAX,
  PAYLOAD_DEPTH_MAX,
  RAIL_REFERENCE_LENGTH_MAX,
  PERSON_LENGTH_MAX,
  REASON_LENGTH_MAX,
} from './limits.js'
export { AMOUNT_MINOR_DIGITS_MAX, currencyCodes, formatMoney, minorUnitsOf, parseMoney } from './money.js'
export type { Money } from './money.js'
export { encodePayload } from './payload.js'
export { redact } from './redact.js'
export { JsonSyntaxError, parseStrictJson } from './strictJson.js'
export type { StrictJsonOptions } from './strictJson.js'
export { TokenBucket } from './TokenBucket.js'
export { decodeTraceContext, encodeTraceContext } from './traceContext.js'
export type { TraceContext } from './traceContext.js'
