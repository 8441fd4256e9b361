import type { Command } from 'commander'
import { loadEmbedded } from '../../db/index.js'
import { addExamples, jsonOption, parseWholeNumber } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { SETTINGS } from '../settings/settings.js'
import { shellWord } from '../terminal/installation.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerDb(program: Command, cli: Cli): void {
  const db = program
    .command('db')
    .description('start or stop the embedded PostgreSQL, or print its address')
    .addHelpText(
      'after',
      `
Examples:
  symphony db start
  psql "$(symphony db url)"
  symphony db stop`,
    )

  addSettings(addExamples(db.command('start'), 'symphony db start --port 5544'), DATA_DIR)
    .description('start PostgreSQL and leave it running')
    .option('--port <number>', 'port to listen on (default: the previous port, or a free one)', parseWholeNumber)
    .addOption(jsonOption())
    .action((flags: StartFlags) => startDb(flags, cli))

  addSettings(addExamples(db.command('stop'), 'symphony db stop'), DATA_DIR)
    .description('stop PostgreSQL; succeeds if none is running')
    .option('--force', 'also stop a server that belongs to a running symphony process')
    .addOption(jsonOption())
    .action((flags: GivenFlags) => stopDb(flags, cli))

  addSettings(addExamples(db.command('url'), 'psql "$(symphony db url)"'), DATA_DIR)
    .description('print the address of the running PostgreSQL, password included')
    .addOption(jsonOption())
    .action((flags: GivenFlags) => printUrl(flags, cli))
}

const DATA_DIR = ['dataDir'] as const
type StartFlags = GivenFlags & { readonly port?: number }

async function startDb(flags: StartFlags, cli: Cli): Promise<void> {
  const { port, json } = flags
  const { dataDir } = await resolveSettings(DATA_DIR, flags, cli)
  const { startEmbedded } = await loadEmbedded()
  const server = await startEmbedded({
    dataDir,
    port,
    detached: true,
    searchPath: cli.env['PATH'],
    signal: cli.signal,
  })
  const { version, adopted, ownerPid } = server
  // The URL contains the password. Only `db url` prints it.
  const shown = { dataDir: server.dataDir, port: server.port, version, adopted, ownerPid: ownerPid ?? null }
  if (json === true) return cli.terminal.printJson(shown)
  const folder = dataDir === SETTINGS.dataDir.default ? '' : ` --data-dir ${shellWord(dataDir)}`
  const verb = adopted ? 'was already running' : 'is running'
  cli.terminal.print(`PostgreSQL ${version} ${verb} in ${server.dataDir}, on port ${server.port}.`)
  cli.terminal.note(
    cli.terminal.noteColors.dim(
      ownerPid === undefined
        ? `Its address: symphony db url${folder}. To stop it: symphony db stop${folder}`
        : `It belongs to process ${ownerPid} and stops with it. Its address: symphony db url${folder}`,
    ),
  )
}

async function stopDb(flags: GivenFlags, cli: Cli): Promise<void> {
  const { dataDir } = await resolveSettings(DATA_DIR, flags, cli)
  const { stopEmbedded } = await loadEmbedded()
  const stopped = await stopEmbedded(dataDir, { force: flags['force'] === true })
  if (flags['json'] === true) return cli.terminal.printJson({ stopped })
  cli.terminal.print(stopped ? 'PostgreSQL has stopped.' : `No PostgreSQL was running in ${dataDir}.`)
}

async function printUrl(flags: GivenFlags, cli: Cli): Promise<void> {
  const { dataDir } = await resolveSettings(DATA_DIR, flags, cli)
  const { embeddedUrl } = await loadEmbedded()
  const url = await embeddedUrl(dataDir)
  if (flags['json'] === true) cli.terminal.printJson({ url })
  else cli.terminal.print(url)
}
