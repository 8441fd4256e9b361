export { callRail, inquireRail } from './callRail.js'
export type { CallOptions, DispatchOptions, RailVerdict, StatusVerdict } from './callRail.js'
export { defineRail } from './defineRail.js'
export { RETRY_AFTER_MS, VERDICT_CODES } from './judgeAnswer.js'
export { loadRail, loadRails, RAIL_TIMEOUT_DEFAULT_MS, RAIL_TIMEOUT_MS } from './loadRails.js'
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
export { httpRail } from './http/httpRail.js'
export { HTTP_STATUS_OUTCOMES } from './http/httpOutcomes.js'
export type { HttpHeaders, HttpOptions, HttpRailOptions, HttpStatusOptions } from './http/httpOptions.js'
export type { TlsMaterial } from './http/HttpTransport.js'
export { signRequest } from './http/requestSignature.js'
export type { SignedParts, SigningKey } from './http/requestSignature.js'
export { SIMULATED_BEHAVIOURS } from './simulated/behaviours.js'
export type { BehaviourWeights, SimulatedBehaviour } from './simulated/behaviours.js'
export { serveRailBook } from './simulated/bookServer.js'
export type { BookServer, BookServerOptions } from './simulated/bookServer.js'
export { readBook } from './simulated/readBook.js'
export type { RailEffect } from './simulated/readBook.js'
export { SIMULATED_CODES, simulatedRail } from './simulated/simulatedRail.js'
export type { SimulatedRailOptions } from './simulated/simulatedRail.js'
export { startRailBook } from './simulated/startRailBook.js'
export type { RailBookProcess } from './simulated/startRailBook.js'
export { RailContractError, runRailContract } from './contract/runRailContract.js'
export type { RuleResult } from './contract/runRailContract.js'
export type { ContractOptions } from './contract/Sandbox.js'
