import type { Command } from 'commander'
import { loadEmbedded } from '../../db/index.js'
import { addExamples, dataDirOption, jsonOption, parseWholeNumber } from '../settings/options.js'
import type { Cli } from '../terminal/Terminal.js'

interface DbOptions {
  readonly dataDir: string
  readonly json?: boolean
}

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

  addExamples(db.command('start'), 'symphony db start --port 5544')
    .description('start PostgreSQL and leave it running')
    .addOption(dataDirOption())
    .option('--port <number>', 'port to listen on (default: the previous port, or a free one)', parseWholeNumber)
    .addOption(jsonOption())
    .action((options: DbOptions & { readonly port?: number }) => startDb(options, cli))

  addExamples(db.command('stop'), 'symphony db stop')
    .description('stop PostgreSQL; succeeds if none is running')
    .addOption(dataDirOption())
    .option('--force', 'also stop a server that belongs to a running symphony process')
    .addOption(jsonOption())
    .action((options: DbOptions & { readonly force?: boolean }) => stopDb(options, cli))

  addExamples(db.command('url'), 'psql "$(symphony db url)"')
    .description('print the address of the running PostgreSQL, password included')
    .addOption(dataDirOption())
    .addOption(jsonOption())
    .action((options: DbOptions) => printUrl(options, cli))
}

async function startDb({ dataDir, port, json }: DbOptions & { readonly port?: number }, cli: Cli): Promise<void> {
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
  const verb = adopted ? 'was already running' : 'is running'
  cli.terminal.print(`PostgreSQL ${version} ${verb} in ${server.dataDir}, on port ${server.port}.`)
  cli.terminal.note(
    cli.terminal.noteColors.dim(
      ownerPid === undefined
        ? 'Its address: symphony db url. To stop it: symphony db stop'
        : `It belongs to process ${ownerPid} and stops with it. Its address: symphony db url`,
    ),
  )
}

async function stopDb({ dataDir, force, json }: DbOptions & { readonly force?: boolean }, cli: Cli): Promise<void> {
  const { stopEmbedded } = await loadEmbedded()
  const stopped = await stopEmbedded(dataDir, { force })
  if (json === true) return cli.terminal.printJson({ stopped })
  cli.terminal.print(stopped ? 'PostgreSQL has stopped.' : `No PostgreSQL was running in ${dataDir}.`)
}

async function printUrl({ dataDir, json }: DbOptions, cli: Cli): Promise<void> {
  const { embeddedUrl } = await loadEmbedded()
  const url = await embeddedUrl(dataDir)
  if (json === true) cli.terminal.printJson({ url })
  else cli.terminal.print(url)
}
