import { createInterface } from 'node:readline'
import type { Command } from 'commander'
import {
  ArgumentRangeError,
  SymphonyError,
  InvalidArgumentError,
  InvalidPayloadError,
  parseStrictJson,
  PAYLOAD_DEPTH_MAX,
} from '../../core/index.js'
import { IdempotencyConflictError, type Queryable } from '../../db/index.js'
import {
  enqueue,
  enqueueMany,
  RailWarnings,
  parseInstruction,
  type EnqueuedItem,
  type EnqueueWarning,
  type InstructionEncryptor,
  type OutboxInstruction,
} from '../../outbox/index.js'
import type { KnownContracts } from '../../rails/index.js'
import { withTarget } from '../database/target.js'
import { openInput } from '../operator/openInput.js'
import { withProtection } from '../processes/rails.js'
import { flagOf, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { PROTECTION, TARGET, type ProtectionSettings, type TargetSettings } from '../settings/settings.js'
import { ProgressBar, type Cli } from '../terminal/Terminal.js'

const SETTINGS_TAKEN = [...TARGET, ...PROTECTION] as const
type EnqueueSettings = TargetSettings & ProtectionSettings

export function registerEnqueue(program: Command, cli: Cli): void {
  addSettings(
    program.command('enqueue').description('enqueue one payment, or a file of them; repeating it changes nothing'),
    SETTINGS_TAKEN,
  )
    .option('--file <file>', 'file with one JSON instruction per line; - for standard input')
    .option('--instruction <id>', 'instruction id')
    .option('--participant <id>', 'participant that the payment belongs to')
    .option('--rail <type>', 'rail type')
    .option('--payload <json>', 'payload for the rail: amount, currency, destination')
    .option('--key <key>', 'idempotency key (default: the instruction id)')
    .option('--not-before <time>', 'earliest time of dispatch, such as 2026-01-31T12:00:00Z')
    .option('--ordered', 'dispatch in sequence with the other ordered payments of the participant')
    .option('--outcome-topic <topic>', 'topic that receives the outcomes of the payment as messages')
    .option('--replaces <id>', 'outbox id of the returned or failed payment that this payment replaces')
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
A line of a file: {"instructionId":"INV-1","participantId":"ACME","railType":"sepa","payload":{"amount":"12.50",
"currency":"EUR","destination":"DE89370400440532013000"}}, and optionally idempotencyKey, notBefore, ordered,
outcomeTopic, replaces.
With --rails, the rail validates each new payment before it is enqueued, and its field classes apply: forbidden fields
are refused, encrypted fields need --vault-keys. An existing payment is not validated again: its record is returned.
If no worker has served the rail within a day, the command prints a warning and enqueues the payment.
A file is enqueued in batches. If a line is refused after the first batch, the exit code is 1, and the batches before it
stay enqueued: correct the line and run the file again.

Examples:
  symphony enqueue --instruction INV-1 --participant ACME --rail sepa \\
    --payload '{"amount":"12.50","currency":"EUR","destination":"DE89370400440532013000"}'
  symphony enqueue --file payments.ndjson`

const ONE = [
  'instruction',
  'participant',
  'rail',
  'payload',
  'key',
  'notBefore',
  'ordered',
  'outcomeTopic',
  'replaces',
] as const

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const { file } = flags
  const unknownKey = ONE.find((name) => file !== undefined && flags[name] !== undefined)
  if (unknownKey !== undefined) throw new InvalidArgumentError(flagOf(unknownKey), 'expected either this or --file')
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli)
  if (typeof file === 'string') await runFile(file, settings, flags, cli)
  else await runOne(instructionOf(flags), settings, flags, cli)
}

async function runFile(file: string, settings: EnqueueSettings, { json }: GivenFlags, cli: Cli): Promise<void> {
  const { warnings, ...counts } = await withProtection(settings, ({ rails, vault }) =>
    withTarget(settings, 'enqueue', (database) =>
      enqueueFile(file, { ingest: database.as('symphony_ingest'), rails, vault }, cli),
    ),
  )
  if (json === true) return cli.terminal.printJson({ ...counts, ...jsonOf(warnings) })
  cli.terminal.print(`${counts.read} read: ${counts.created} enqueued, ${counts.existing} already existed.`)
  noteEach(warnings, cli)
}

async function runOne(
  instruction: OutboxInstruction,
  settings: EnqueueSettings,
  { json }: GivenFlags,
  cli: Cli,
): Promise<void> {
  const { terminal } = cli
  const { instructionId, railType } = instruction
  const { item, warnings } = await withProtection(settings, ({ rails, vault }) =>
    withTarget(settings, 'enqueue', async (database) => {
      const ingest = database.as('symphony_ingest')
      const enqueued = await enqueue(instruction, { tx: ingest, rails, protection: vault })
      const waiting = enqueued.state === 'PENDING' ? [railType] : []
      return { item: enqueued, warnings: await new RailWarnings(ingest).find(waiting) }
    }),
  )
  if (json === true) return terminal.printJson({ instructionId, ...item, ...jsonOf(warnings) })
  const verb = item.created ? 'was enqueued' : `already existed and is ${item.state}`
  terminal.print(`${instructionId} ${verb}: outbox item ${item.outboxId}, number ${item.sequenceId}.`)
  noteEach(warnings, cli)
}

function jsonOf(warnings: readonly EnqueueWarning[]): { readonly warnings?: readonly EnqueueWarning[] } {
  return warnings.length === 0 ? {} : { warnings }
}

function noteEach(warnings: readonly EnqueueWarning[], { terminal }: Cli): void {
  for (const { code, message } of warnings) terminal.note(`${terminal.noteColors.yellow(code)} ${message}`)
}

function instructionOf(flags: GivenFlags): OutboxInstruction {
  const { instruction, participant, rail, payload, key, notBefore, ordered, outcomeTopic, replaces } = flags
  if (typeof payload !== 'string') {
    throw new InvalidArgumentError('--payload', 'expected a JSON object, or --file with many instructions')
  }
  return parseInstruction({
    instructionId: given('--instruction', instruction),
    participantId: given('--participant', participant),
    railType: given('--rail', rail),
    payload: parseStrictJson(payload, { argument: '--payload' }),
    ...(typeof key === 'string' ? { idempotencyKey: key } : {}),
    ...(typeof notBefore === 'string' ? { notBefore } : {}),
    ...(ordered === true ? { ordered } : {}),
    ...(typeof outcomeTopic === 'string' ? { outcomeTopic } : {}),
    ...(typeof replaces === 'string' ? { replaces } : {}),
  })
}

function given(flag: string, value: string | boolean | undefined): string {
  if (typeof value !== 'string') throw new InvalidArgumentError(flag, 'expected an id')
  return value
}

interface EnqueuedCounts {
  readonly read: number
  readonly created: number
  readonly existing: number
}

interface EnqueuedFile extends EnqueuedCounts {
  readonly warnings: readonly EnqueueWarning[]
}

interface EnqueueTarget {
  readonly ingest: Queryable
  readonly rails: KnownContracts
  readonly vault: InstructionEncryptor
}

interface NumberedInstruction {
  readonly line: number
  readonly instruction: OutboxInstruction
}

/**
 * Enqueues a file of instructions, one per line, in one transaction per batch. After a crash or an invalid line, the
 * earlier batches stay enqueued. A second run skips them by their idempotency keys.
 */
async function enqueueFile(file: string, target: EnqueueTarget, cli: Cli): Promise<EnqueuedFile> {
  const source = await openSource(file)
  const bar = new ProgressBar(cli.terminal, source.bytes)
  let counts: EnqueuedCounts = { read: 0, created: 0, existing: 0 }
  const waitingRails = new Set<string>()
  let bytesRead = 0
  let batch: NumberedInstruction[] = []
  const flush = async () => {
    const items = await enqueueBatch(target, batch)
    const created = items.filter((item) => item.created).length
    counts = {
      read: counts.read + items.length,
      created: counts.created + created,
      existing: counts.existing + items.length - created,
    }
    for (const [index, { instruction }] of batch.entries()) {
      if (items[index]?.state === 'PENDING') waitingRails.add(instruction.railType)
    }
    batch = []
    // Shows progress in bytes, because the number of lines is unknown.
    if (source.bytes > 0) bar.show(Math.min(bytesRead, source.bytes), `bytes, ${counts.read} payments`)
  }
  let line = 0
  try {
    for await (const text of source.lines) {
      cli.signal.throwIfAborted()
      line += 1
      bytesRead += Buffer.byteLength(text) + 1
      if (text.trim() === '') continue
      batch.push({ line, instruction: readLine(text, line) })
      if (batch.length === BATCH) await flush()
    }
    if (batch.length > 0) await flush()
    return { ...counts, warnings: await new RailWarnings(target.ingest).find(waitingRails) }
  } catch (error) {
    const isLine = error instanceof InvalidArgumentError || error instanceof ArgumentRangeError
    if (!isLine || counts.read === 0) throw error
    // Another code, because the exit code of these errors is 2, which says that nothing was done.
    throw new SymphonyError('INVALID_PAYLOAD', error.message, {
      remedy:
        `The lines ${batch[0]?.line ?? line} to ${line} were not enqueued; the lines before them were. ` +
        'Correct the line and run the file again.',
    })
  } finally {
    bar.clear()
    await source.close()
  }
}

function readLine(text: string, line: number): OutboxInstruction {
  const place = `line ${line}`
  const value = parseStrictJson(text, { argument: place, depthMax: PAYLOAD_DEPTH_MAX + 1 })
  return parseInstruction(value, { place: `${place}, ` })
}

async function enqueueBatch(
  { ingest, rails, vault }: EnqueueTarget,
  batch: readonly NumberedInstruction[],
): Promise<EnqueuedItem[]> {
  try {
    return await enqueueMany(
      batch.map(({ instruction }) => instruction),
      { tx: ingest, rails, protection: vault },
    )
  } catch (error) {
    if (error instanceof InvalidPayloadError) throw invalidIn(batch, error)
    throw error instanceof IdempotencyConflictError ? conflictIn(batch, error) : error
  }
}

/** Returns the error with the line in the file instead of the index in the batch. */
function invalidIn(batch: readonly NumberedInstruction[], { code, message }: InvalidPayloadError): SymphonyError {
  const [, index = '0', fault = message] = /^instructions\[(\d+)\]\.(.*)$/s.exec(message) ?? []
  const [first, last] = [batch[0]?.line, batch.at(-1)?.line]
  return new SymphonyError(code, `line ${batch[Number(index)]?.line}, ${fault}`, {
    remedy: `The lines ${first} to ${last} were not enqueued. Correct the line and run the file again.`,
  })
}

/** Returns the error with the line in the file instead of the position that the database reports. */
function conflictIn(
  batch: readonly NumberedInstruction[],
  { code, detail = '{}' }: IdempotencyConflictError,
): SymphonyError {
  const { ordinal = 0 }: { ordinal?: number } = JSON.parse(detail)
  const [first, last] = [batch[0]?.line, batch.at(-1)?.line]
  const line = batch[ordinal - 1]?.line ?? `${first} to ${last}`
  return new SymphonyError(
    code,
    `line ${line}: this instruction id and key already exist with another participant, rail or payload.`,
    {
      remedy:
        `The lines ${first} to ${last} were not enqueued; the lines before them were. ` +
        'Use a new key for a new payment, or repeat the old payment unchanged; then run the file again.',
    },
  )
}

interface Source {
  readonly lines: AsyncIterable<string>
  /** Size of the file; 0 if unknown. */
  readonly bytes: number
  close(): Promise<void>
}

async function openSource(file: string): Promise<Source> {
  if (file === '-') {
    return { lines: createInterface({ input: process.stdin, crlfDelay: Infinity }), bytes: 0, close: async () => {} }
  }
  const { handle, size } = await openInput(file)
  return { lines: handle.readLines(), bytes: size, close: () => handle.close() }
}

const BATCH = 500
