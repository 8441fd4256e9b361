/**
 * Rails: external systems that move money, and the functions that call them.
 *
 * A rail is declared as a plain object (`types.ts`) and loaded once at start (`loadRails`, which refuses a faulty
 * declaration). For each payment a relayer validates the payload (`validatePayload`), calls the rail (`callRail`), and
 * inquires about an unknown outcome (`inquireRail`). None of the three throws or hangs. A result is `unknown` unless it
 * is certain that the rail paid or did not pay.
 *
 * | event | result |
 * | --- | --- |
 * | an answer that follows the contract and agrees with the rail's table of codes | its own outcome |
 * | `NotSentError` | `notSent`: nothing reached the rail |
 * | a timeout, an abort, a throw, a malformed answer, a success without a reference, a code that is not listed | `unknown` |
 *
 * This module stores nothing: a crash during a call leaves a lease that expires and an unknown outcome, and the
 * database decides what follows. Text of a rail is redacted (`redact`) before it leaves this module.
 *
 * The module has `httpRail`, `webhookRail`, and `simulatedRail` with a durable rail book (`readBook`).
 * `runRailContract` tests an adapter. Rails that publish to a broker are in `libs/brokers`.
 */
export { callRail, inquireRail } from './callRail.js'
export type { DispatchOptions, RailResult, StatusResult } from './callRail.js'
export { RailContractError, runRailContract } from './contract/runRailContract.js'
export type { RuleResult } from './contract/runRailContract.js'
export type { RailContractOptions } from './contract/Sandbox.js'
export { holdsCardNumber, refuseCardNumbers } from './fields/cardNumbers.js'
export { ENCRYPTED_PREFIX, mapFields, mergeFieldRules, rulesOf } from './fields/fieldRules.js'
export type {
  DecryptedPayload,
  DecryptPayload,
  EncryptedItem,
  FieldClass,
  FieldClasses,
  FieldRule,
  UnreadableReason,
} from './fields/fieldRules.js'
export { maskPayload, maskPayloadText } from './fields/maskPayload.js'
export type { MaskedPayload } from './fields/maskPayload.js'
export type { HttpHeaders, HttpOptions, HttpRailOptions, HttpStatusOptions } from './http/httpOptions.js'
export { HTTP_STATUS_OUTCOMES } from './http/httpOutcomes.js'
export { httpRail } from './http/httpRail.js'
export type { TlsMaterial } from './http/HttpTransport.js'
export { signRequest } from './http/requestSignature.js'
export type { SignedParts, SigningKey } from './http/requestSignature.js'
export { webhookRail } from './http/webhookRail.js'
export type { WebhookRailOptions } from './http/webhookRail.js'
export { RAIL_RESULT_CODES } from './classifyAnswer.js'
export { loadContract, loadRail, loadRails, RAIL_TIMEOUT_DEFAULT_MS, RAIL_TIMEOUT_MS } from './loadRails.js'
export type { LoadedContract, LoadedRail, LoadOptions } from './loadRails.js'
export { isNotSentError, NotSentError } from './NotSentError.js'
export { redact } from '../core/index.js'
export { findRefusal, loadTopics, requireTopicPayload } from './refusePayload.js'
export type { KnownContracts } from './refusePayload.js'
export { SIMULATED_BEHAVIOURS } from './simulated/behaviours.js'
export type { BehaviourWeights, SimulatedBehaviour } from './simulated/behaviours.js'
export { serveRailBook, startRailBook } from './simulated/bookServer.js'
export type { RailBookProcess } from './simulated/bookServer.js'
export { readBook } from './simulated/readBook.js'
export type { RailEffect } from './simulated/readBook.js'
export { simulatedRail } from './simulated/simulatedRail.js'
export type { SimulatedRailOptions } from './simulated/simulatedRail.js'
export { defineRail, requestBody } from './types.js'
export type {
  DefaultPayload,
  DestinationKind,
  DestinationValidator,
  PaymentPayload,
  PayloadOf,
  Rail,
  RailAnswer,
  RailCodes,
  RailContext,
  RailContract,
  RailDeclaration,
  RailOutcome,
  RailPayment,
  RailRequest,
  RailStatus,
  StandardIssue,
  StandardResult,
  StandardSchema,
  TopicContracts,
  TopicPayload,
  TopicWithPayload,
  UnknownPolicy,
} from './types.js'
export { validatePayload } from './validatePayload.js'
export { rejectOnAbort, type AbortListener, type StopSignal } from './withDeadline.js'
