import {
  ArgumentRangeError,
  BATCH_SIZE,
  boundedInteger,
  decodeTraceContext,
  encodePayload,
  ERROR_CODE_LENGTH_MAX,
  InvalidArgumentError,
  RAIL_REFERENCE_LENGTH_MAX,
  REASON_LENGTH_MAX,
  requiredId,
  requiredIdempotencyKey,
  requiredText,
  requiredUuid,
  redact,
  type ArgumentName,
} from '../core/index.js'
import { activeTraceContext } from './traces.js'
import type { AttemptOutcome, LeaseRef, OutboxInstruction } from './types.js'

/** Checks arguments before any I/O and converts them into columns. Each error names the argument and its index. */

interface InstructionColumns {
  readonly instructionIds: string[]
  readonly participantIds: string[]
  readonly idempotencyKeys: string[]
  readonly railTypes: string[]
  readonly payloads: string[]
  readonly notBefore: (Date | null)[]
  readonly ordered: boolean[]
  /** Null if no instruction has a trace context. */
  readonly traceContexts: (string | null)[] | null
  readonly outcomeTopics: Sparse<string>
  readonly replaces: Sparse<string>
}

export function instructionColumns(instructions: readonly OutboxInstruction[]): InstructionColumns {
  requireBatch('instructions', instructions)
  const active = activeTraceContext()
  const isTraced = active !== undefined || instructions.some(({ traceContext }) => traceContext !== undefined)
  const columns: InstructionColumns = {
    instructionIds: [],
    participantIds: [],
    idempotencyKeys: [],
    railTypes: [],
    payloads: [],
    notBefore: [],
    ordered: [],
    traceContexts: isTraced ? instructions.map(({ traceContext = active }) => keptContext(traceContext)) : null,
    outcomeTopics: optionalColumn(instructions, 'outcomeTopic', requiredId),
    replaces: optionalColumn(instructions, 'replaces', requiredUuid),
  }
  // One closure per field names the failing instruction by `index`. A closure per instruction would allocate memory for
  // each.
  let index = 0
  const at = (field: string) => (instructions.length === 1 ? field : () => `instructions[${index}].${field}`)
  const instructionId = at('instructionId')
  const participantId = at('participantId')
  const idempotencyKey = at('idempotencyKey')
  const railType = at('railType')
  const payload = at('payload')
  const notBefore = at('notBefore')
  const ordered = at('ordered')
  for (const instruction of instructions) {
    columns.instructionIds.push(requiredId(instructionId, instruction.instructionId))
    columns.participantIds.push(requiredId(participantId, instruction.participantId))
    columns.idempotencyKeys.push(requiredIdempotencyKey(idempotencyKey, instruction.idempotencyKey))
    columns.railTypes.push(requiredId(railType, instruction.railType))
    columns.payloads.push(encodePayload(instruction.payload, payload))
    columns.notBefore.push(optionalDate(notBefore, instruction.notBefore))
    columns.ordered.push(optionalBoolean(ordered, instruction.ordered) ?? false)
    index += 1
  }
  return columns
}

/** Checks a field that most instructions leave out. Returns null if no instruction has it. */
function optionalColumn(
  instructions: readonly OutboxInstruction[],
  field: 'outcomeTopic' | 'replaces',
  required: (argument: ArgumentName, value: unknown) => string,
): Sparse<string> {
  if (instructions.every((instruction) => instruction[field] === undefined)) return null
  return instructions.map((instruction, index) => {
    const argument = instructions.length === 1 ? field : `instructions[${index}].${field}`
    return instruction[field] === undefined ? null : required(argument, instruction[field])
  })
}

export function leaseColumns(
  leases: readonly LeaseRef[],
  argument = 'leases',
): { outboxIds: string[]; leaseTokens: string[] } {
  requireBatch(argument, leases)
  const outboxIds: string[] = []
  const leaseTokens: string[] = []
  // One closure per column names the failing lease. A closure per lease would allocate memory for each.
  const outboxIdAt = () => `${argument}[${outboxIds.length}].outboxId`
  const leaseTokenAt = () => `${argument}[${leaseTokens.length}].leaseToken`
  for (const { outboxId, leaseToken } of leases) {
    outboxIds.push(requiredUuid(outboxIdAt, outboxId))
    leaseTokens.push(requiredUuid(leaseTokenAt, leaseToken))
  }
  return { outboxIds, leaseTokens }
}

/**
 * Column that is null as a whole if it is null for every item. Most outcomes are successes, which leave most columns
 * empty.
 */
type Sparse<T> = (T | null)[] | null

interface OutcomeColumns {
  readonly outboxIds: string[]
  readonly leaseTokens: string[]
  readonly states: string[]
  readonly railReferences: Sparse<string>
  readonly railCodes: Sparse<string>
  readonly errorCodes: Sparse<string>
  readonly errorMessages: Sparse<string>
  readonly latenciesMs: Sparse<number>
  readonly retryDelaysSeconds: Sparse<number>
  readonly outcomesUnknown: Sparse<boolean>
  readonly holdReasons: Sparse<string>
  readonly actions: Sparse<string>
}

export function outcomeColumns(outcomes: readonly AttemptOutcome[]): OutcomeColumns {
  const { outboxIds, leaseTokens } = leaseColumns(outcomes, 'outcomes')
  const each = <T>(field: string, read: (argument: ArgumentName, outcome: AttemptOutcome) => T): T[] => {
    let place = -1
    const argument = () => `outcomes[${place}].${field}`
    return outcomes.map((outcome, index) => {
      place = index
      return read(argument, outcome)
    })
  }
  const sparse = <T>(...given: Parameters<typeof each<T | null>>): Sparse<T> => {
    const column = each(...given)
    return column.every((value) => value === null) ? null : column
  }
  return {
    outboxIds,
    leaseTokens,
    // The state is not checked here: the database refuses an invalid one (P7003), and contract tests rely on that.
    states: each('state', (argument, { state }) => requiredText(argument, state, ERROR_CODE_LENGTH_MAX)),
    railReferences: sparse('railReference', (a, o) => optionalText(a, o.railReference, RAIL_REFERENCE_LENGTH_MAX)),
    railCodes: sparse('railCode', (a, o) => optionalText(a, o.railCode, ERROR_CODE_LENGTH_MAX)),
    errorCodes: sparse('errorCode', (a, o) => optionalText(a, o.errorCode, ERROR_CODE_LENGTH_MAX)),
    errorMessages: sparse('errorMessage', (_, o) => optionalErrorText(o.errorMessage)),
    latenciesMs: sparse('latencyMs', (a, o) => optionalInteger(a, o.latencyMs, LATENCY_MS)),
    retryDelaysSeconds: sparse('retryDelaySeconds', (a, o) =>
      optionalInteger(a, o.retryDelaySeconds, RETRY_DELAY_SECONDS),
    ),
    outcomesUnknown: sparse('outcomeUnknown', (a, o) => optionalBoolean(a, o.outcomeUnknown)),
    holdReasons: sparse('holdReason', (a, o) => optionalText(a, o.holdReason, REASON_LENGTH_MAX)),
    // 'sent' is the database's default and is left out, so that a batch of plain sends has no such column.
    actions: sparse('action', (a, o) =>
      o.action === 'sent' ? null : optionalText(a, o.action, ERROR_CODE_LENGTH_MAX),
    ),
  }
}

/** Checks a list of rails. Returns null if no list is given, which means all rails. */
export function optionalRails(argument: string, rails: readonly string[] | undefined): string[] | null {
  if (rails === undefined) return null
  requireBatch(argument, rails)
  return rails.map((rail, index) => requiredId(`${argument}[${index}]`, rail))
}

/** Replaces an invalid trace context by null. Text that PostgreSQL cannot store would otherwise fail the enqueue. */
function keptContext(traceContext: string | undefined): string | null {
  return typeof traceContext === 'string' && decodeTraceContext(traceContext) !== undefined ? traceContext : null
}

function requireBatch(argument: string, items: readonly unknown[]): void {
  if (!Array.isArray(items)) throw new InvalidArgumentError(argument, 'expected an array')
  if (items.length < BATCH_SIZE.min || items.length > BATCH_SIZE.max) {
    throw new ArgumentRangeError(argument, `expected ${BATCH_SIZE.min} to ${BATCH_SIZE.max} items, got ${items.length}`)
  }
}

export function optionalText(
  argument: ArgumentName,
  value: string | null | undefined,
  lengthMax: number,
): string | null {
  return value === undefined || value === null ? null : requiredText(argument, value, lengthMax)
}

/** Redacts the text and never throws, because an error text must not prevent the recording of an outcome. */
function optionalErrorText(value: string | null | undefined): string | null {
  if (value === undefined || value === null) return null
  const text = redact(value)
  return text.trim() === '' ? null : text
}

function optionalInteger(
  argument: ArgumentName,
  value: number | null | undefined,
  bounds: { readonly min: number; readonly max: number },
): number | null {
  return value === undefined || value === null ? null : boundedInteger(argument, value, bounds)
}

function optionalBoolean(argument: ArgumentName, value: boolean | null | undefined): boolean | null {
  if (value === undefined || value === null) return null
  if (typeof value !== 'boolean') throw new InvalidArgumentError(argument, 'expected true or false')
  return value
}

export function optionalDate(argument: ArgumentName, value: Date | undefined): Date | null {
  if (value === undefined) return null
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new InvalidArgumentError(argument, 'expected a valid Date')
  }
  // ISO 8601 writes years with four digits. PostgreSQL would report other years as a syntax error.
  const year = value.getUTCFullYear()
  if (year < 1 || year > 9_999) throw new ArgumentRangeError(argument, 'expected a year from 1 to 9999')
  return value
}

/** Bounds of a latency: the values of an int4, the type of the ledger's column, from 0. */
const LATENCY_MS = Object.freeze({ min: 0, max: 2_147_483_647 })
/** Bounds of a retry delay: at most thirty days. A longer Retry-After of a rail is a mistake. */
const RETRY_DELAY_SECONDS = Object.freeze({ min: 0, max: 2_592_000 })
