import { randomBytes } from 'node:crypto'
import { join, resolve } from 'node:path'
import { deploy, doctor, type DeployReport, type Diagnosis } from '../../deployment/index.js'
import { dashboardFolder } from '../../http/index.js'
import { simulatedRail, type Rail } from '../../rails/index.js'
import { printDiagnosis, requireHealth, requireStartChecks } from '../database/diagnosis.js'
import { openServer, type OpenedServer } from '../database/target.js'
import {
  SETTINGS,
  type AlertSettings,
  type ApiSettings,
  type CleanupSettings,
  type NotifyFileSettings,
  type ProcessSettings,
  type RelaySettings,
  type SchedulerSettings,
  type TargetSettings,
} from '../settings/settings.js'
import { shellWord } from '../terminal/installation.js'
import { countOf, type Cli } from '../terminal/Terminal.js'
import { alertRails, loadNotify, startNotifier } from './alertNotices.js'
import { createLog, RefusalWatch, untilAborted } from './lifecycle.js'
import { createApiOptions, loadApiFiles, ProcessHttpServer } from './ProcessHttpServer.js'
import { openMasterKeys, readRailsFile } from './rails.js'
import { loginOf, parseServerUrl, readOrCreateSecret, urlOfLogin } from './secrets.js'
import { ledgerOptions, openSymphony, relayerOptions, retentionOptions, schedulerOptions } from './workerOptions.js'

export type StartSettings = TargetSettings &
  RelaySettings &
  SchedulerSettings &
  CleanupSettings &
  ProcessSettings &
  ApiSettings &
  AlertSettings &
  NotifyFileSettings

const USUAL_PORT = 7_420
const SIMULATED_RAIL = 'simulated'
/** Roles of workers and API, which run in one process. */
const PROCESS_ROLES = ['ingest', 'executor', 'readonly', 'auditor', 'control', 'auth'] as const

/** Runs database, workers and API in one process, and stops all of them before it returns or throws. */
export async function runStart(settings: StartSettings, cli: Cli): Promise<void> {
  const { databaseUrl, dataDir } = settings
  const { signal } = cli
  const files = await readFiles(settings, cli)
  let isServing = false
  try {
    const server = await openServer({ databaseUrl, dataDir }, { searchPath: cli.env['PATH'], signal })
    try {
      const url = await prepareDatabase(server, settings, cli)
      isServing = !signal.aborted
      if (isServing) await serve(url, files, settings, cli)
    } finally {
      await server.stop()
    }
  } finally {
    // An open connection of a rail would keep the process alive. `serve` closes the rails itself.
    if (!isServing) await Promise.allSettled(files.rails.map(async (rail) => rail.close?.()))
  }
}

type StartFiles = Awaited<ReturnType<typeof readFiles>>

/** Reads the files of the settings. Called first: a mistake in a file exits with 2, which says that nothing was done. */
async function readFiles(settings: StartSettings, cli: Cli) {
  const vault = await openMasterKeys(settings.vaultKeys)
  const api = await loadApiFiles(settings)
  const notify = await loadNotify(settings, cli)
  const rails = [...(await railsOf(settings)), ...alertRails(notify)]
  return { vault, api, notify, rails }
}

/** Deploys, runs the start checks and returns the URL with the login of the processes. */
async function prepareDatabase(server: OpenedServer, settings: StartSettings, cli: Cli): Promise<string> {
  const { schema, dataDir, strict } = settings
  const target = { url: server.url, schema }
  await requireStartChecks({ ...target, part: 'server' }, cli)
  const login = await loginOf(dataDir)
  const report = await deploy({ ...target, createLogins: [{ ...login, roles: PROCESS_ROLES, gateway: 'names' }] })
  cli.signal.throwIfAborted()
  const diagnosis = await doctor(target)
  if (!diagnosis.ok) printDiagnosis(diagnosis, cli)
  requireHealth(diagnosis)
  const url = urlOfLogin(server.url, login)
  await requireStartChecks({ url, schema, strict }, cli)
  printServer(server, report, diagnosis, cli)
  return url
}

async function serve(url: string, files: StartFiles, settings: StartSettings, cli: Cli): Promise<void> {
  const { vault, notify, rails } = files
  const symphony = openSymphony(url, settings, 'start', { rails, vault })
  try {
    const token = await accessTokenOf(settings)
    const log = createLog(settings.logLevel, 'symphony')
    const worker = symphony.worker({
      ...relayerOptions(settings),
      scheduler: schedulerOptions(settings),
      maintenance: { ...ledgerOptions(settings), ...retentionOptions(settings) },
    })
    const api = createApiOptions(settings, files.api)
    const { webhooks } = files.api
    const httpServer = new ProcessHttpServer({ symphony, log, accessToken: token.value, api, webhooks })
    const watch = RefusalWatch.of(symphony, log, httpServer.metrics)
    httpServer.metrics.outbox.declareRails(worker.railTypes)
    const notifier = startNotifier(notify, { symphony, log, settings })
    try {
      await worker.start()
      const address = await httpServer.listen(settings, USUAL_PORT)
      printWelcome({ address, token }, settings, cli)
      await untilAborted(AbortSignal.any([cli.signal, watch.signal]))
    } finally {
      await Promise.all([httpServer.close(), worker.stop(), notifier?.stop()])
    }
    watch.throwIfRefused()
  } finally {
    await symphony.close()
  }
}

async function railsOf({ rails, dataDir, railTimeoutMs: timeoutMs }: StartSettings): Promise<readonly Rail[]> {
  if (rails !== undefined) return readRailsFile(rails, { timeoutMs })
  const simulated = simulatedRail({
    type: SIMULATED_RAIL,
    onUnknown: 'inquire',
    bookFile: join(dataDir, 'rail-book.ndjson'),
    latencyMs: { min: 20, max: 200 },
  })
  return [simulated]
}

function newToken(): string {
  return randomBytes(32).toString('base64url')
}

function printServer(server: OpenedServer, report: DeployReport, { findings }: Diagnosis, { terminal }: Cli): void {
  terminal.print(describeServer(server))
  const verb = report.outcome === 'deployed' ? 'was deployed' : 'was already deployed'
  terminal.print(`Release ${report.release} ${verb} in the schema ${report.schema}, and the doctor found it sound.`)
  if (findings.length > 0) terminal.print(`It reports ${countOf(findings.length, 'note')}: symphony doctor`)
}

export function describeServer({ url, embedded }: OpenedServer): string {
  if (embedded === undefined) {
    const { hostname, port, pathname, searchParams } = parseServerUrl(url)
    const shownPort = searchParams.get('port') ?? port
    return `Using the database ${searchParams.get('host') ?? hostname}${shownPort === '' ? '' : `:${shownPort}`}${pathname}.`
  }
  const { version, dataDir, port, adopted } = embedded
  const verb = adopted ? 'was running already' : 'is running'
  return `PostgreSQL ${version} ${verb} in ${dataDir}, on port ${port}. To connect: psql "$(symphony db url --data-dir ${shellWord(dataDir)})"`
}

interface Welcome {
  readonly address: string
  readonly token: AccessToken
}

function printWelcome(welcome: Welcome, settings: StartSettings, cli: Cli): void {
  const { address, token } = welcome
  const { terminal } = cli
  const { bold } = terminal.colors
  const place = token.file === undefined ? 'SYMPHONY_ACCESS_TOKEN' : `the file ${token.file}`
  terminal.print(`The API listens on ${bold(address)}. Its access token is in ${place}.`)
  if (dashboardFolder() !== undefined) {
    // Prints the token only on a terminal; a log or pipe gets the path of its file. Browsers do not send the part of a
    // URL after # to the server.
    const isShown = token.file !== undefined && terminal.isPrintedToPerson
    const link = bold(isShown ? `${address}/#token=${token.value}` : address)
    terminal.print(`The dashboard: ${link}${isShown ? '' : ' (sign in with the access token)'}`)
  }
  terminal.print('')
  if (settings.rails === undefined) printFirstPayment(welcome, settings, cli)
  else terminal.print(`Enqueue payments with POST ${address}/v1/instructions, described at ${address}/docs.`)
  terminal.note(terminal.noteColors.dim('Stop with Ctrl-C.'))
}

/**
 * Prints commands that enqueue and show a payment, only for the simulated rail. The instruction id differs at each
 * start, so that a command pasted after a restart enqueues a new payment.
 */
function printFirstPayment({ address, token }: Welcome, settings: StartSettings, { terminal, env }: Cli): void {
  const { dim } = terminal.colors
  const instructionId = `first-payment-${randomBytes(3).toString('hex')}`
  const body = JSON.stringify({
    instructionId,
    participantId: 'acme',
    railType: SIMULATED_RAIL,
    payload: { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' },
  })
  const bearer = token.file === undefined ? '$SYMPHONY_ACCESS_TOKEN' : `$(cat ${shellWord(token.file)})`
  const authorization = `-H "Authorization: Bearer ${bearer}"`
  terminal.print(dim('Enqueue a first payment:'))
  terminal.print(
    `curl -sS ${address}/v1/instructions ${authorization} ` +
      `-H 'Idempotency-Key: ${instructionId}' -H 'Content-Type: application/json' -d '${body}'`,
  )
  terminal.print(dim('Then check the result:'))
  terminal.print(`curl -sS ${address}/v1/instructions/${instructionId} ${authorization}`)
  const show = showCommand(instructionId, settings, env)
  if (show !== undefined) terminal.print(show)
}

/** Returns a command that finds the same database; undefined for a URL of a flag, which contains a password. */
export function showCommand(
  instructionId: string,
  { databaseUrl, dataDir, schema }: Pick<StartSettings, 'databaseUrl' | 'dataDir' | 'schema'>,
  env: Cli['env'],
): string | undefined {
  if (databaseUrl !== undefined && databaseUrl !== env['DATABASE_URL']) return undefined
  const folder = dataDir === SETTINGS.dataDir.default ? '' : ` --data-dir ${shellWord(dataDir)}`
  const schemaFlag = schema === SETTINGS.schema.default ? '' : ` --schema ${shellWord(schema)}`
  return `symphony show ${instructionId}${folder}${schemaFlag}`
}

/** Access token and its file. A token from the settings has no file and is not printed. */
interface AccessToken {
  readonly value: string
  readonly file: string | undefined
}

async function accessTokenOf({ accessToken, dataDir }: StartSettings): Promise<AccessToken> {
  if (accessToken !== undefined) return { value: accessToken, file: undefined }
  const file = resolve(dataDir, 'access-token')
  return { value: await readOrCreateSecret(file, newToken), file }
}
