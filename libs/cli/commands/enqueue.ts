import type { Command } from 'commander'
import { InvalidArgumentError, parseStrictJson } from '../../core/index.js'
import {
  enqueue,
  RailWarnings,
  readInstruction,
  type EnqueueWarning,
  type OutboxInstruction,
} from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { withProtection } from '../fieldProtection.js'
import { enqueueFile } from '../enqueueFile.js'
import { withTarget } from '../openTarget.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { PROTECTION, TARGET, type ProtectionSettings, type TargetSettings } from '../settings.js'

const SETTINGS_TAKEN = [...TARGET, ...PROTECTION] as const
type EnqueueSettings = TargetSettings & ProtectionSettings

/** `symphony enqueue`: one payment from the command line, or a file of them. */
export function registerEnqueue(program: Command, cli: Cli): void {
  addSettings(
    program.command('enqueue').description('enqueue one payment, or a file of them; repeating it changes nothing'),
    SETTINGS_TAKEN,
  )
    .option('--file <file>', 'a file with one instruction per line, as JSON; - for standard input')
    .option('--instruction <id>', 'what the payment is called')
    .option('--participant <id>', 'whose stream it belongs to')
    .option('--rail <type>', 'which rail carries it')
    .option('--payload <json>', 'what the rail is told: amount, currency, destination')
    .option('--key <key>', 'the idempotency key (default: the instruction id)')
    .option('--not-before <time>', 'not to be sent before this time, such as 2026-01-31T12:00:00Z')
    .option('--ordered', 'in sequence with the other ordered payments of the participant')
    .addOption(jsonOption())
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
A line of a file: {"instructionId":"INV-1","participantId":"ACME","railType":"sepa","payload":{"amount":"12.50",
"currency":"EUR","destination":"DE89370400440532013000"}}, and optionally idempotencyKey, notBefore, ordered.
With --rails, the rail checks each new payment before it is enqueued, and its field classes apply: some fields are refused, and
some encrypted with --vault-keys. A payment that is known already is answered from the record.
A rail that no worker has served within a day gives a warning; the payment is enqueued all the same.

Examples:
  symphony enqueue --instruction INV-1 --participant ACME --rail sepa \\
    --payload '{"amount":"12.50","currency":"EUR","destination":"DE89370400440532013000"}'
  symphony enqueue --file payments.ndjson`

const ONE = ['instruction', 'participant', 'rail', 'payload', 'key', 'notBefore', 'ordered'] as const

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const { file } = flags
  const stray = ONE.find((name) => file !== undefined && flags[name] !== undefined)
  if (stray !== undefined) throw new InvalidArgumentError(`--${stray}`, 'expected either this or --file')
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
  cli.terminal.print(`${counts.read} read: ${counts.created} enqueued, ${counts.existing} were there already.`)
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
  const verb = item.created ? 'was enqueued' : `was there already, and is ${item.state}`
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
  const { instruction, participant, rail, payload, key, notBefore, ordered } = flags
  if (typeof payload !== 'string') {
    throw new InvalidArgumentError('--payload', 'expected a JSON object, or --file with many instructions')
  }
  return readInstruction({
    instructionId: given('--instruction', instruction),
    participantId: given('--participant', participant),
    railType: given('--rail', rail),
    payload: parseStrictJson(payload, { argument: '--payload' }),
    ...(typeof key === 'string' ? { idempotencyKey: key } : {}),
    ...(typeof notBefore === 'string' ? { notBefore } : {}),
    ...(ordered === true ? { ordered } : {}),
  })
}

function given(flag: string, value: string | boolean | undefined): string {
  if (typeof value !== 'string') throw new InvalidArgumentError(flag, 'expected an id')
  return value
}
