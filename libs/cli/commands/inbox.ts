import { Option, type Command } from 'commander'
import { SymphonyError, BATCH_SIZE, boundedInteger } from '../../core/index.js'
import type { RoleHandle } from '../../db/index.js'
import {
  readInboxEvents,
  readInboxMessage,
  readInboxMessages,
  reviveInboxMessage,
  type InboxEvent,
  type InboxKey,
  type InboxMessageStatus,
  type InboxState,
} from '../../inbox/index.js'
import { withTarget } from '../database/target.js'
import {
  addOperatorOptions,
  addPeriod,
  asControl,
  printResult,
  reasonOption,
  requiredReason,
  timeOf,
} from '../operator/operator.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import { resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerInbox(program: Command, cli: Cli): void {
  const inbox = program.command('inbox').description('messages received from other systems').addHelpText('after', HELP)

  addPeriod(
    addOperatorOptions(
      addExamples(inbox.command('list'), 'symphony inbox list --state dead --since 2026-01-31T08:00:00Z').description(
        'list the newest messages in a state',
      ),
    ),
  )
    .addOption(new Option('--state <state>', 'state of the messages').choices(STATES).default('dead'))
    .addOption(new Option('--limit <n>', 'maximum number listed').argParser(parseWholeNumber).default(100))
    .action((flags: GivenFlags & ListFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(inbox.command('show'), 'symphony inbox show bank-of-x evt_17')
      .description('show one message and its events')
      .argument('<source>')
      .argument('<id>'),
  ).action((source: string, messageId: string, flags: GivenFlags) => show({ source, messageId }, flags, cli))

  addOperatorOptions(
    addExamples(inbox.command('revive'), 'symphony inbox revive bank-of-x evt_17 --reason "the account exists now"')
      .description('make a dead message due again and reset its attempts')
      .argument('<source>')
      .argument('<id>'),
  )
    .addOption(reasonOption())
    .action((source: string, messageId: string, flags: GivenFlags) => revive({ source, messageId }, flags, cli))
}

const STATES: readonly InboxState[] = ['seen', 'processing', 'done', 'dead']

const HELP = `
A message is identified by its source and its id. It is dead after its handler declared it dead, or after its last
attempt failed; then an operator can revive it. The login of --database-url is recorded as the actor.
Payloads are never shown.

Examples:
  symphony inbox list
  symphony inbox list --state processing --json
  symphony inbox show bank-of-x evt_17
  symphony inbox revive bank-of-x evt_17 --reason "the account exists now"`

interface ListFlags {
  readonly state: InboxState
  readonly limit: number
}

async function list(flags: GivenFlags & ListFlags, cli: Cli): Promise<void> {
  const limit = boundedInteger('--limit', flags.limit, BATCH_SIZE)
  const period = { ...timeOf('since', flags), ...timeOf('until', flags) }
  const messages = await asReader(flags, cli, (role) => readInboxMessages(role, flags.state, limit, period))
  if (flags['json'] === true) return cli.terminal.printJson({ messages })
  if (messages.length === 0) cli.terminal.print(`No message is ${flags.state}.`)
  for (const message of messages) printMessage(message, cli)
  if (messages.length === limit) cli.terminal.note(`These are the newest ${limit}; there may be more.`)
}

async function show(key: InboxKey, flags: GivenFlags, cli: Cli): Promise<void> {
  const { message, events } = await asReader(flags, cli, async (role) => ({
    message: await readInboxMessage(role, key),
    events: await readInboxEvents(role, key),
  }))
  // Throws only if the events are missing too, because retention removes a message earlier than its events.
  if (message === null && events.length === 0) {
    throw new SymphonyError(
      'MESSAGE_NOT_FOUND',
      `There is no message ${key.messageId} of ${key.source} in the inbox.`,
      {
        remedy: 'Check --database-url and --schema; retention may have removed the message.',
      },
    )
  }
  if (flags['json'] === true) return cli.terminal.printJson({ message, events })
  if (message === null) cli.terminal.print('The message itself was removed by retention.')
  else printMessage(message, cli)
  for (const event of events) printEvent(event, cli)
}

async function revive(key: InboxKey, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const eventId = await asControl('inbox', flags, cli, (control) => reviveInboxMessage(control, key, reason))
  printResult({ ...key, eventId }, `${key.messageId} of ${key.source} is due again.`, flags, cli)
}

async function asReader<T>(flags: GivenFlags, cli: Cli, body: (role: RoleHandle) => Promise<T>): Promise<T> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withTarget(settings, 'inbox', (database) => body(database.as('symphony_readonly')))
}

function printMessage(message: InboxMessageStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const topic = message.topic ?? 'known for deduplication only'
  terminal.print(`${bold(message.source)} ${bold(message.messageId)} ${bold(message.state)} ${topic}`)
  for (const [word, value] of factsOf(message)) terminal.print(`  ${dim(word.padEnd(10))} ${value}`)
}

function factsOf(message: InboxMessageStatus): readonly (readonly [string, string])[] {
  const { attemptCount, attemptsMax, sightings, claimedBy, claimExpiresAt, lastError } = message
  const facts: readonly (readonly [string, string | null | undefined])[] = [
    ['first seen', message.firstSeenAt.toISOString()],
    ['last seen', sightings === 1n ? null : `${message.lastSeenAt.toISOString()}, ${sightings} times in all`],
    ['attempts', attemptCount === 0 ? null : `${attemptCount} of ${attemptsMax}`],
    ['due', message.state === 'seen' ? message.dueAt?.toISOString() : null],
    ['claimed by', claimedBy === null ? null : `${claimedBy} until ${claimExpiresAt?.toISOString()}`],
    ['ended', message.endedAt?.toISOString()],
    ['last error', lastError],
  ]
  return facts.flatMap(([word, value]) => (value === null || value === undefined ? [] : [[word, value] as const]))
}

function printEvent({ createdAt, eventType, actor, detail }: InboxEvent, { terminal }: Cli): void {
  terminal.print(`  ${terminal.colors.dim(createdAt.toISOString())} ${eventType} by ${actor} ${JSON.stringify(detail)}`)
}
