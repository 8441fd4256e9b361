export { callRail, inquireRail } from './callRail.js'
export type { CallOptions, DispatchOptions, RailVerdict, StatusVerdict } from './callRail.js'
export { defineRail } from './defineRail.js'
export { RETRY_AFTER_MS, VERDICT_CODES } from './judgeAnswer.js'
export { loadRails, RAIL_TIMEOUT_DEFAULT_MS, RAIL_TIMEOUT_MS } from './loadRails.js'
export type { LoadedRail, LoadOptions } from './loadRails.js'
export { isNotSentError, NotSentError } from './NotSentError.js'
export { redact } from './redact.js'
export type { StandardIssue, StandardResult, StandardSchema } from './standardSchema.js'
export type {
  DestinationKind,
  DestinationValidator,
  Rail,
  RailAnswer,
  RailCodes,
  RailContext,
  RailOutcome,
  RailRequest,
  RailStatus,
  UnknownPolicy,
} from './types.js'
export { validatePayload } from './validatePayload.js'
export type { PayloadCheck, PayloadCheckFailure, PayloadFault, PayloadFaultCode } from './validatePayload.js'
