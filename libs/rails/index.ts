/**
 * The outside world: rails, which move the money, and the one way to call them.
 *
 * A rail is declared (a plain object: `types.ts`), loaded once at start (`loadRails`, which refuses what is wrong with
 * it), and then, for each payment: checked (`validatePayload`), called (`callRail`), and, where nobody knows what came of
 * that, asked (`inquireRail`). None of the three throws or hangs. Each ends in a verdict, and the rule of all verdicts is:
 * a payment is *unknown* unless it is certain that it was made or was not.
 *
 * | what happened | verdict |
 * | --- | --- |
 * | an answer of the contract, in agreement with the rail's table of codes | what it says |
 * | `NotSentError` | `notSent`: nothing reached the rail |
 * | a timeout, an abort, a throw, garbage, a success without a reference, a code that is not listed | `unknown` |
 *
 * Nothing is kept here: a crash during a call leaves a lease that expires and an outcome that is unknown, and the
 * database says what follows. Text of a rail is redacted (`redact`) before it leaves this room.
 *
 * Shipped are `httpRail`, and `simulatedRail` with a durable book of what it paid (`readBook`). `runRailContract` is for
 * those who write their own. Rails that publish to a broker are in a room of their own, `brokers`.
 */
export { callRail, inquireRail } from './callRail.js'
export type { CallOptions, DispatchOptions, RailResult, StatusResult } from './callRail.js'
export { RailContractError, runRailContract } from './contract/runRailContract.js'
export type { RuleResult } from './contract/runRailContract.js'
export type { ContractOptions } from './contract/Sandbox.js'
export { defineRail } from './defineRail.js'
export { CardNumberRefusedError, holdsCardNumber, refuseCardNumbers } from './fields/cardNumbers.js'
export { mapFields, mergeFieldRules, rulesOf } from './fields/fieldRules.js'
export type { FieldClass, FieldClasses, FieldPlace, FieldRule, VisitField } from './fields/fieldRules.js'
export { ENCRYPTED_PREFIX } from './fields/decryptPayload.js'
export type { DecryptedPayload, DecryptPayload, EncryptedItem, UnreadableReason } from './fields/decryptPayload.js'
export { maskPayload, maskPayloadText } from './fields/maskPayload.js'
export type { MaskedPayload } from './fields/maskPayload.js'
export type { HttpHeaders, HttpOptions, HttpRailOptions, HttpStatusOptions } from './http/httpOptions.js'
export { HTTP_STATUS_OUTCOMES } from './http/httpOutcomes.js'
export { httpRail } from './http/httpRail.js'
export type { TlsMaterial } from './http/HttpTransport.js'
export { signRequest } from './http/requestSignature.js'
export type { SignedParts, SigningKey } from './http/requestSignature.js'
export { RETRY_AFTER_MS, RAIL_RESULT_CODES } from './classifyAnswer.js'
export { loadRail, loadRails, RAIL_TIMEOUT_DEFAULT_MS, RAIL_TIMEOUT_MS } from './loadRails.js'
export type { LoadedRail, LoadOptions } from './loadRails.js'
export { isNotSentError, NotSentError } from './NotSentError.js'
export { redact } from '../core/index.js'
export { requestBody } from './requestBody.js'
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
export type { StandardIssue, StandardResult, StandardSchema } from './standardSchema.js'
export type {
  DestinationKind,
  DestinationValidator,
  Rail,
  RailAnswer,
  RailCodes,
  RailContext,
  RailDeclaration,
  RailOutcome,
  RailRequest,
  RailStatus,
  UnknownPolicy,
} from './types.js'
export { validatePayload } from './validatePayload.js'
export type { PayloadCheck, PayloadCheckFailure, PayloadFault, PayloadFaultCode } from './validatePayload.js'
