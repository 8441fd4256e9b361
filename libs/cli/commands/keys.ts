import { Option, type Command } from 'commander'
import { ApiKeys, SCOPES, type ApiKeyStatus, type Scope } from '../../access/index.js'
import { InvalidArgumentError, parseTimestamp, systemClock } from '../../core/index.js'
import { withTarget } from '../database/target.js'
import { addOperatorOptions, printResult } from '../operator/operator.js'
import { addExamples } from '../settings/options.js'
import { resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerKeys(program: Command, cli: Cli): void {
  const keys = program.command('keys').description('keys of the HTTP API').addHelpText('after', HELP)

  addOperatorOptions(
    addExamples(
      keys.command('create'),
      'symphony keys create --scope ingest --owner shop --participant acme',
      'symphony keys create --scope read --scope operate --owner alice --expires 90d',
    ).description('create a key and show it once'),
  )
    .addOption(
      new Option('--scope <scope>', `scope of the key: ${SCOPES.join(', ')}; may be repeated`).argParser(collect),
    )
    .option('--owner <person>', 'person who holds the key; two-person decisions record this name')
    .addOption(
      new Option('--participant <id>', 'restrict the key to this participant; may be repeated').argParser(collect),
    )
    .option('--expires <when>', 'time with its offset, or a number of days: 2027-01-31T00:00:00Z, 90d (default: never)')
    .action((flags: GivenFlags & CreateFlags) => create(flags, cli))

  addOperatorOptions(
    addExamples(keys.command('list'), 'symphony keys list --json').description(
      'list every key, newest first, without secrets',
    ),
  ).action((flags: GivenFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(keys.command('revoke'), 'symphony keys revoke k3y1d0000000000a')
      .description('revoke a key for ever; servers refuse it within five seconds')
      .argument('<key-id>'),
  ).action((keyId: string, flags: GivenFlags) => revoke(keyId, flags, cli))
}

const HELP = `
A key is shown once, when it is created; the database stores a hash of it. Each scope acts in its own role: ingest
enqueues, read shows everything except payloads, audit shows the ledger with payloads, operate decides and pauses. You
can only grant a scope whose role you have. A key with the scope operate belongs to its creator, unless an administrator
creates it: otherwise one person could approve their own proposals.

Examples:
  symphony keys create --scope ingest --owner shop --participant acme
  symphony keys create --scope read --scope operate --owner alice --expires 90d
  symphony keys list
  symphony keys revoke k3y1d0000000000a`

interface CreateFlags {
  readonly scope?: readonly string[]
  readonly participant?: readonly string[]
}

async function create(flags: GivenFlags & CreateFlags, cli: Cli): Promise<void> {
  const { owner, expires, participant } = flags
  if (typeof owner !== 'string') throw new InvalidArgumentError('--owner', 'expected the person who holds the key')
  const request = {
    scopes: scopesOf(flags.scope ?? []),
    owner,
    ...(participant === undefined ? {} : { participants: participant }),
    ...(typeof expires === 'string' ? { expiresAt: timeOf(expires) } : {}),
  }
  const { keyId, key, createdAt } = await withKeys(flags, cli, (keys) => keys.create(request))
  if (flags['json'] === true) return cli.terminal.printJson({ keyId, key, ...request, createdAt })
  cli.terminal.print(`The key ${keyId} of ${owner} is created. It is shown only now:`)
  cli.terminal.print(`  ${key}`)
}

async function withKeys<T>(flags: GivenFlags, cli: Cli, body: (keys: ApiKeys) => Promise<T>): Promise<T> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withTarget(settings, 'keys', (database) => body(new ApiKeys(database)))
}

function scopesOf(words: readonly string[]): readonly Scope[] {
  const scopes = words.map((word) => SCOPES.find((scope) => scope === word))
  const known = scopes.filter((scope) => scope !== undefined)
  if (known.length > 0 && known.length === scopes.length) return known
  throw new InvalidArgumentError('--scope', `expected ${SCOPES.join(', ')}; it may be repeated`)
}

/**
 * Parses a time, or a number of days from now by this machine's clock. The database clock decides whether a key has
 * expired.
 */
function timeOf(text: string): Date {
  const [, days] = /^(\d{1,5})d$/.exec(text) ?? []
  if (days !== undefined) return new Date(systemClock.now().getTime() + Number(days) * DAY_MS)
  const time = parseTimestamp(text)
  if (time !== undefined) return time
  throw new InvalidArgumentError('--expires', 'expected 2027-01-31T00:00:00Z, or a number of days, such as 90d')
}

const DAY_MS = 86_400_000

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const keys = await withKeys(flags, cli, (all) => all.list())
  if (flags['json'] === true) return cli.terminal.printJson({ keys })
  if (keys.length === 0) cli.terminal.print('There are no keys.')
  for (const key of keys) printKey(key, cli)
}

function printKey(key: ApiKeyStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const { keyId, owner, status, scopes, participants, lastUsedAt, createdBy, createdAt, expiresAt, revokedBy } = key
  terminal.print(`${bold(keyId)} ${owner} ${bold(status)} ${scopes.join('+')}`)
  const facts = [
    participants === null ? undefined : `for ${participants.join(', ')}`,
    `created ${createdAt.toISOString()} by ${createdBy}`,
    expiresAt === null ? undefined : `expires ${expiresAt.toISOString()}`,
    revokedBy === null ? undefined : `revoked by ${revokedBy}`,
    lastUsedAt === null ? 'never used' : `used in the hour of ${lastUsedAt.toISOString()}`,
  ]
  terminal.print(`  ${dim(facts.filter((fact) => fact !== undefined).join('; '))}`)
}

async function revoke(keyId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const changed = await withKeys(flags, cli, (keys) => keys.revoke({ keyId }))
  printResult({ keyId, changed }, `The key ${keyId} ${changed ? 'is revoked' : 'was revoked already'}.`, flags, cli)
}

function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value]
}
