/** Strict input, errors and clocks: pure, no I/O, imports nothing of Symphony. */
export { AppError, ArgumentRangeError, InvalidArgumentError } from './AppError.js'
export type { ArgumentName } from './AppError.js'
export { boundedInteger } from './boundedInteger.js'
export type { Bounds } from './boundedInteger.js'
export { Cancellation } from './Cancellation.js'
export type { StopSignal } from './Cancellation.js'
export { systemClock } from './clock.js'
export type { Clock } from './clock.js'
export { currencyCodes, minorUnitsOf } from './currencies.js'
export { createWorkerId, isUuid, requiredId, requiredIdempotencyKey, requiredInboxId, requiredUuid } from './ids.js'
export { readInstant } from './instant.js'
export { indexPath, keyPath } from './jsonPath.js'
export { compileJsonPointer } from './jsonPointer.js'
export type { JsonPointer } from './jsonPointer.js'
export type { JsonObject, JsonValue } from './JsonValue.js'
export {
  BATCH_SIZE,
  ERROR_CODE_LENGTH_MAX,
  ERROR_MESSAGE_LENGTH_MAX,
  ID_LENGTH_MAX,
  INBOX_ID_LENGTH_MAX,
  JSON_TEXT_BYTES_MAX,
  LEASE_DURATION_MS,
  LEASE_SECONDS,
  NUMBER_MAGNITUDE,
  NUMBER_SCALE_MAX,
  PAYLOAD_BYTES_MAX,
  PAYLOAD_DEPTH_MAX,
  RAIL_REFERENCE_LENGTH_MAX,
  REASON_LENGTH_MAX,
} from './limits.js'
export { AMOUNT_MINOR_DIGITS_MAX, formatMoney, parseMoney } from './money.js'
export type { Money } from './money.js'
export { nearestSpelling } from './nearestSpelling.js'
export { encodePayload } from './payload.js'
export { isPermanentFailure, PermanentFailureError } from './PermanentFailureError.js'
export { redact } from './redact.js'
export { requiredText } from './requiredText.js'
export { NotJsonError, parseStrictJson } from './strictJson.js'
export type { StrictJsonOptions } from './strictJson.js'
export { decodeTraceContext, encodeTraceContext } from './traceContext.js'
export type { TraceContext } from './traceContext.js'
export { refuseUnknownKeys } from './unknownKeys.js'
