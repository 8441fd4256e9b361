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

/** `symphony vault`: the keys of encrypted fields. */
export function registerVault(program: Command, cli: Cli): void {
  const vault = program.command('vault').description('keys of encrypted fields').addHelpText('after', HELP)

  addExamples(vault.command('keygen'), 'symphony vault keygen vault.json', 'symphony vault keygen vault.json --id 2027')
    .description('make a file of master keys, or add one to it and make it the current one')
    .argument('<file>', 'readable by its owner alone; every process that encrypts or dispatches needs it')
    .option('--id <id>', 'what the key is called (default: a random name)')
    .option('--not-current', 'add it, and go on wrapping under the one before: first every process must have it')
    .addOption(jsonOption())
    .action((file: string, flags: GivenFlags) => keygen(file, flags, cli))

  addOperatorOptions(
    addExamples(vault.command('status'), 'symphony vault status --json').description(
      'how many subjects have a key, and under which master keys',
    ),
  ).action((flags: GivenFlags) => status(flags, cli))

  addSettings(
    addExamples(vault.command('rotate'), 'symphony vault rotate --vault-keys vault.json').description(
      'put every data key under the current master key; payloads and ledger stay as they are',
    ),
    [...TARGET, 'vaultKeys'],
  )
    .addOption(jsonOption())
    .action((flags: GivenFlags) => rotate(flags, cli))

  addOperatorOptions(
    addExamples(vault.command('shred'), 'symphony vault shred customer-4711 --reason "erasure request 88" --yes')
      .description('destroy the key of a subject for ever: nobody can read its encrypted fields again')
      .argument('<subject>', 'the participant, or what the rail’s subject names')
      .option('--reason <text>', 'why; kept with the fact that it was destroyed')
      .addOption(new Option('--yes', 'really: there is no way back')),
  ).action((subject: string, flags: GivenFlags) => shred(subject, flags, cli))
}

const HELP = `
A rail declares which fields of its payloads are encrypted. They are encrypted before they reach the database and decrypted
just before the rail is called, under a data key for each subject, which the database keeps wrapped under a master key that
it never gets. Payments of a subject whose key is destroyed are held, not sent: end them first.

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
    `The master key ${added.id} is in ${file}. ${current} Keep a copy where no database is.`,
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
  printResult(result, `${rewrapped} keys were put under the master key ${masterKeyId}, as all others are.`, flags, cli)
}

async function shred(subject: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const { reason } = flags
  if (typeof reason !== 'string') throw new InvalidArgumentError('--reason', 'expected why; it is kept')
  if (flags['yes'] !== true) {
    throw new InvalidArgumentError('--yes', 'expected, because nobody can bring a destroyed key back')
  }
  const changed = await withVault(flags, cli, (vault) => vault.shred({ subject, reason }))
  const verb = changed ? 'is destroyed' : 'was destroyed already'
  printResult({ subject, changed }, `The key of ${subject} ${verb}: its encrypted fields are unreadable.`, flags, cli)
}
