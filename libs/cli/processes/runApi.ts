import { isActorGateway } from '../../access/index.js'
import { AppError } from '../../core/index.js'
import type { Database } from '../../db/index.js'
import { declareOutboxRails } from '../../outbox/index.js'
import { requireStartChecks } from '../database/diagnosis.js'
import { openTargetAt, urlOfTarget } from '../database/target.js'
import type {
  AlertSettings,
  ApiSettings,
  ProcessSettings,
  ProtectionSettings,
  TargetSettings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { createLog, untilAborted } from './lifecycle.js'
import { createApiOptions, loadApiFiles, ProcessHttpServer, type ApiFiles } from './ProcessHttpServer.js'
import { withProtection, type Protection } from './rails.js'

export type ApiProcessSettings = TargetSettings & ProtectionSettings & ProcessSettings & ApiSettings & AlertSettings

/** Serves the API and the dashboard until told to stop; then no connection of it is left. */
export async function runApi(settings: ApiProcessSettings, cli: Cli): Promise<void> {
  const files = await loadApiFiles(settings)
  await withProtection(settings, (protection) => serve(settings, { files, protection }, cli))
}

interface Loaded {
  readonly files: ApiFiles
  readonly protection: Protection
}

async function serve(settings: ApiProcessSettings, { files, protection }: Loaded, cli: Cli): Promise<void> {
  const { strict, schema, accessToken } = settings
  const url = await urlOfTarget(settings)
  await requireStartChecks({ url, schema, strict }, cli)
  const log = createLog(settings.logLevel, 'symphony api')
  const database = openTargetAt(url, settings, 'api')
  try {
    await reportWhoCannotOperate(database, settings, cli)
    await declareOutboxRails(database.as('symphony_control'), protection.rails.values(), 'api', { serving: false })
    const api = createApiOptions(url, settings, files, protection)
    const httpServer = new ProcessHttpServer({ database, log, accessToken, api, webhooks: files.webhooks })
    try {
      const address = await httpServer.listen(settings, USUAL_PORT)
      log.info({ address }, 'api_started')
      cli.terminal.print(`The API listens on ${address}.`)
      await untilAborted(cli.signal)
    } finally {
      await httpServer.close()
    }
    log.info({}, 'api_stopped')
  } finally {
    await database.close()
  }
}

/** Reports which people cannot use the scope operate: requests of them are refused. */
async function reportWhoCannotOperate(
  database: Database,
  settings: ApiProcessSettings,
  { terminal }: Cli,
): Promise<void> {
  const control = database.as('symphony_control')
  if (await isActorGateway(control, 'names')) return
  const { strict, oidc, accessToken } = settings
  if (!(await isActorGateway(control, 'keys'))) {
    const message = 'This login is no gateway: requests that need the scope operate or ingest are refused.'
    const remedy = 'Create or mend a login for the API: symphony deploy --create-login NAME=api'
    if (strict) throw new AppError('NO_ACTOR_GATEWAY', message, { remedy })
    terminal.note(`${message} ${remedy}`)
  } else if (oidc !== undefined || accessToken !== undefined) {
    terminal.note(
      'This login may act for owners of API keys only: requests with a token that need the scope operate are refused. ' +
        'symphony deploy --create-login NAME=api+names lets it name people without a key.',
    )
  }
}

const USUAL_PORT = 7_420
