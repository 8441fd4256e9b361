import { Option, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import { Vault } from '../../protection/index.js'
import { withTarget } from '../database/target.js'
import { addOperatorOptions, printResult } from '../operator/operator.js'
import { addMasterKey, MasterKeyFile } from '../processes/MasterKeyFile.js'
import { addExamples, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerVault(program: Command, cli: Cli): void {
  const vault = program.command('vault').description('keys of encrypted fields').addHelpText('after', HELP)

  addExamples(vault.command('keygen'), 'symphony vault keygen vault.json', 'symphony vault keygen vault.json --id 2027')
    .description('create a file of master keys, or add a key and make it the current one')
    .argument('<file>', 'file that only its owner can read; every process that encrypts or dispatches needs it')
    .option('--id <id>', 'id of the key (default: random)')
    .option('--not-current', 'add the key but keep wrapping with the current one, until every process has the new file')
    .addOption(jsonOption())
    .action((file: string, flags: GivenFlags) => keygen(file, flags, cli))

  addOperatorOptions(
    addExamples(vault.command('status'), 'symphony vault status --json').description(
      'count the subjects with a key, per master key',
    ),
  ).action((flags: GivenFlags) => status(flags, cli))

  addSettings(
    addExamples(vault.command('rotate'), 'symphony vault rotate --vault-keys vault.json').description(
      'wrap every data key with the current master key; payloads and ledger do not change',
    ),
    [...TARGET, 'vaultKeys'],
  )
    .addOption(jsonOption())
    .action((flags: GivenFlags) => rotate(flags, cli))

  addOperatorOptions(
    addExamples(vault.command('shred'), 'symphony vault shred customer-4711 --reason "erasure request 88" --yes')
      .description('destroy the key of a subject for ever: its encrypted fields can never be read again')
      .argument('<subject>', 'participant, or the value that the rail’s subject selects')
      .option('--reason <text>', 'why; stored with the record of the destruction')
      .addOption(new Option('--yes', 'confirm: this cannot be undone')),
  ).action((subject: string, flags: GivenFlags) => shred(subject, flags, cli))
}

const HELP = `
A rail declares which fields of its payloads are encrypted. They are encrypted before they reach the database and
decrypted just before the call of the rail. Each subject has its own data key. The database stores it wrapped by a
master key, which the database never receives. Payments of a subject whose key is destroyed are held: complete them
first.

Examples:
  symphony vault keygen vault.json
  symphony worker --rails rails.mjs --vault-keys vault.json
  symphony vault status
  symphony vault rotate --vault-keys vault.json
  symphony vault shred customer-4711 --reason "erasure request 88" --yes`

async function keygen(file: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const { id } = flags
  const added = await addMasterKey(file, {
    ...(typeof id === 'string' ? { id } : {}),
    isCurrent: flags['notCurrent'] !== true,
  })
  const current = added.current === added.id ? 'It is the current one.' : `The current one stays ${added.current}.`
  printResult(
    added,
    `The master key ${added.id} is in ${file}. ${current} Keep a copy outside the database server.`,
    flags,
    cli,
  )
}

async function withVault<T>(flags: GivenFlags, cli: Cli, body: (vault: Vault) => Promise<T>): Promise<T> {
  const settings = await resolveSettings(TARGET, flags, cli)
  return withTarget(settings, 'vault', (database) => body(new Vault(database)))
}

async function status(flags: GivenFlags, cli: Cli): Promise<void> {
  const found = await withVault(flags, cli, (vault) => vault.status())
  if (flags['json'] === true) return cli.terminal.printJson(found)
  const { bold } = cli.terminal.colors
  cli.terminal.print(`${bold(String(found.live))} subjects have a key; ${found.destroyed} were destroyed.`)
  for (const { masterKeyId, keys } of found.masterKeys) cli.terminal.print(`  under ${bold(masterKeyId)}: ${keys}`)
}

async function rotate(flags: GivenFlags, cli: Cli): Promise<void> {
  const { vaultKeys } = await resolveSettings(['vaultKeys'], flags, cli)
  if (vaultKeys === undefined) throw new InvalidArgumentError('--vault-keys', 'expected the file of master keys')
  const masterKeys = await MasterKeyFile.open(vaultKeys)
  const result = await withVault(flags, cli, (vault) => vault.rotate({ masterKeys }))
  const { rewrapped, masterKeyId } = result
  printResult(
    result,
    `${rewrapped} keys were wrapped with the master key ${masterKeyId}; all keys are under it now.`,
    flags,
    cli,
  )
}

async function shred(subject: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const { reason } = flags
  if (typeof reason !== 'string') throw new InvalidArgumentError('--reason', 'expected a reason; it is stored')
  if (flags['yes'] !== true) {
    throw new InvalidArgumentError('--yes', 'expected, because a destroyed key cannot be restored')
  }
  const changed = await withVault(flags, cli, (vault) => vault.shred({ subject, reason }))
  const verb = changed ? 'is destroyed' : 'was destroyed already'
  printResult({ subject, changed }, `The key of ${subject} ${verb}: its encrypted fields are unreadable.`, flags, cli)
}
