import { isActorGateway } from '../../access/index.js'
import { SymphonyError } from '../../core/index.js'
import type { Database } from '../../db/index.js'
import { declareOutboxRails } from '../../outbox/index.js'
import { RAIL_TIMEOUT_DEFAULT_MS } from '../../rails/index.js'
import { partsOf } from '../../symphony/index.js'
import { requireStartChecks } from '../database/diagnosis.js'
import { urlOfTarget } from '../database/target.js'
import type {
  AlertSettings,
  ApiSettings,
  NotifyFileSettings,
  ProcessSettings,
  ProtectionSettings,
  TargetSettings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { loadNotify, startNotifier } from './alertNotices.js'
import { createLog, untilAborted } from './lifecycle.js'
import { createApiOptions, loadApiFiles, ProcessHttpServer } from './ProcessHttpServer.js'
import { openMasterKeys, readRailsFile } from './rails.js'
import { openSymphony } from './workerOptions.js'

export type ApiProcessSettings = TargetSettings &
  ProtectionSettings &
  ProcessSettings &
  ApiSettings &
  AlertSettings &
  NotifyFileSettings

export async function runApi(settings: ApiProcessSettings, cli: Cli): Promise<void> {
  const { strict, schema, accessToken, rails: railsFile } = settings
  const files = await loadApiFiles(settings)
  const notify = await loadNotify(settings, cli)
  const vault = await openMasterKeys(settings.vaultKeys)
  const url = await urlOfTarget(settings)
  // Imports the rails last, because an open connection of a rail would keep a failed process alive.
  const rails = railsFile === undefined ? [] : await readRailsFile(railsFile, { timeoutMs: RAIL_TIMEOUT_DEFAULT_MS })
  const symphony = openSymphony(url, settings, 'api', { rails, vault })
  try {
    await requireStartChecks({ url, schema, strict }, cli)
    const log = createLog(settings.logLevel, 'symphony api')
    const { database, contracts } = partsOf(symphony)
    await reportMissingGateway(database, settings, cli)
    await declareOutboxRails(database.as('symphony_control'), contracts.values(), 'api', { serving: false })
    const api = createApiOptions(settings, files)
    const httpServer = new ProcessHttpServer({ symphony, log, accessToken, api, webhooks: files.webhooks })
    const notifier = startNotifier(notify, { symphony, log, settings })
    try {
      const address = await httpServer.listen(settings, USUAL_PORT)
      log.info({ address }, 'api_started')
      cli.terminal.print(`The API listens on ${address}.`)
      await untilAborted(cli.signal)
    } finally {
      await Promise.all([httpServer.close(), notifier?.stop()])
    }
    log.info({}, 'api_stopped')
  } finally {
    await symphony.close()
  }
}

/**
 * Checks for which people the login may act. If for none, the API refuses requests that need the scope operate or
 * ingest: warns, or throws if `strict` is set. If only for owners of API keys, the API refuses requests that have a
 * token and need the scope operate or propose a payment: warns if the API accepts tokens.
 */
async function reportMissingGateway(
  database: Database,
  settings: ApiProcessSettings,
  { terminal }: Cli,
): Promise<void> {
  const control = database.as('symphony_control')
  if (await isActorGateway(control, 'names')) return
  const { strict, oidc, accessToken } = settings
  if (!(await isActorGateway(control, 'keys'))) {
    const message = 'This login is not a gateway, so requests that need the scope operate or ingest are refused.'
    const remedy = 'Create or repair a login for the API: symphony deploy --create-login NAME=api'
    if (strict) throw new SymphonyError('NO_ACTOR_GATEWAY', message, { remedy })
    terminal.note(`${message} ${remedy}`)
  } else if (oidc !== undefined || accessToken !== undefined) {
    terminal.note(
      'This login may act for owners of API keys only: requests with a token are refused if they need the scope operate or propose a payment. ' +
        'symphony deploy --create-login NAME=api+names lets it act for people without a key.',
    )
  }
}

const USUAL_PORT = 7_420
