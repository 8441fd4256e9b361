import { Argument, Option, type Command } from 'commander'
import { InvalidArgumentError } from '../core/index.js'
import type { RoleHandle } from '../db/index.js'
import type { PauseKind } from '../outbox/index.js'
import type { Cli } from './Cli.js'
import { jsonOption } from './commonOptions.js'
import { withTarget, type TargetLimits } from './openTarget.js'
import { addSettings, resolveSettings, type GivenFlags } from './resolveSettings.js'
import { TARGET } from './settings.js'

/** What every command of an operator takes: the database, and `--json`. Who acts is the login, and nobody else. */
export function addOperatorOptions(command: Command): Command {
  return addSettings(command, TARGET).addOption(jsonOption())
}

export function reasonOption(): Option {
  return new Option('--reason <text>', 'why; kept in the ledger for ever')
}

export function pauseKindArgument(): Argument {
  return new Argument('<kind>', 'what is meant').choices(['rail', 'participant', 'stream', 'all'])
}

export function pauseNameArgument(): Argument {
  return new Argument('[name]', 'the rail or participant; none for all')
}

/** The name of a pause: required for each kind but `all`, which has none. */
export function pauseName(kind: PauseKind, name: string | undefined): string {
  if (kind !== 'all' && name === undefined) throw new InvalidArgumentError('name', `expected the name of the ${kind}`)
  if (kind === 'all' && name !== undefined) throw new InvalidArgumentError('name', 'expected none for all')
  return name ?? 'all'
}

/** `The rail sepa`, or `Everything`. */
export function pauseSubject(kind: PauseKind, name: string): string {
  return kind === 'all' ? 'Everything' : `The ${kind} ${name}`
}

export function requiredReason({ reason }: GivenFlags): string {
  if (typeof reason === 'string') return reason
  throw new InvalidArgumentError('--reason', 'expected why; it is kept in the ledger for ever')
}

/** Runs an operator's action in the role that may act. */
export async function asControl<T>(
  name: string,
  flags: GivenFlags,
  cli: Cli,
  body: (control: RoleHandle) => Promise<T>,
  limits?: TargetLimits,
): Promise<T> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withTarget(settings, name, (database) => body(database.as('symphony_control')), limits)
}

/** The result as JSON, or as a sentence. */
export function printResult(result: object, sentence: string, { json }: GivenFlags, { terminal }: Cli): void {
  if (json === true) terminal.printJson(result)
  else terminal.print(sentence)
}
