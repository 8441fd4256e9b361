import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import { deploy, doctor, type DeployReport, type Diagnosis } from '../../deployment/index.js'
import { openServer, type OpenedServer } from '../../embedded/index.js'
import type { Cli } from '../Cli.js'
import { dataDirOption } from '../commonOptions.js'
import { databaseUrlOption, givenUrl, schemaOption, targetSchema, type TargetOptions } from '../targetDatabase.js'
import { printDiagnosis, requireHealth } from './doctor.js'

/** `symphony start`: a database with the schema in it, in the foreground. */
export function registerStart(program: Command, cli: Cli): void {
  program
    .command('start')
    .description('start PostgreSQL if none is given, deploy, check, and stay until stopped')
    .addOption(databaseUrlOption())
    .addOption(schemaOption())
    .addOption(dataDirOption())
    .action((options: TargetOptions) => runStart(options, cli))
}

async function runStart(options: TargetOptions, cli: Cli): Promise<void> {
  const { dataDir } = options
  const { signal } = cli
  const server = await openServer({
    databaseUrl: givenUrl(options, cli),
    dataDir,
    searchPath: cli.env['PATH'],
    signal,
  })
  try {
    const target = { url: server.url, ...targetSchema(options, cli) }
    const report = await deploy(target)
    signal.throwIfAborted()
    const diagnosis = await doctor(target)
    if (!diagnosis.ok) printDiagnosis(diagnosis, cli)
    requireHealth(diagnosis)
    printReport(server, report, diagnosis, cli)
    await untilAborted(signal)
  } finally {
    await server.stop()
  }
}

function printReport(server: OpenedServer, report: DeployReport, { findings }: Diagnosis, { terminal }: Cli): void {
  terminal.print(placeOf(server))
  const verb = report.outcome === 'deployed' ? 'was deployed' : 'was there already'
  terminal.print(`Release ${report.release} ${verb} in the schema ${report.schema}, and the doctor found it sound.`)
  if (findings.length > 0) terminal.print(`It mentions ${findings.length} thing(s) worth knowing: symphony doctor`)
  terminal.note(terminal.noteColors.dim('Stop with Ctrl-C.'))
}

function placeOf(server: OpenedServer): string {
  if (server.kind === 'external') {
    const { hostname, port, pathname } = new URL(server.url)
    return `Using the database ${hostname}${port === '' ? '' : `:${port}`}${pathname}.`
  }
  const { version, dataDir, port, adopted } = server
  const verb = adopted ? 'was running already' : 'is running'
  return `PostgreSQL ${version} ${verb} in ${dataDir}, on port ${port}. To connect: psql "$(symphony db url --data-dir ${dataDir})"`
}

/** A pending timer is what keeps the process alive; a signal alone would not. */
async function untilAborted(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) await sleep(TIMER_MAX_MS, undefined, { signal }).catch(() => {})
}

const TIMER_MAX_MS = 2 ** 31 - 1
