import type { Logger } from 'pino'
import { alertRules, AlertWatch } from '../../observability/index.js'
import type { Rail } from '../../rails/index.js'
import { partsOf, readSystemStatus, type AnySymphony } from '../../symphony/index.js'
import type { AlertSettings, NotifyFileSettings } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { alertRail, loadNotifyFile, type NotifySettings } from './alertChannels.js'
import { AlertNotifier } from './AlertNotifier.js'

/** Reads the `--notify` file; undefined without the setting. */
export async function loadNotify(
  { notify }: NotifyFileSettings,
  { env }: Pick<Cli, 'env'>,
): Promise<NotifySettings | undefined> {
  return notify === undefined ? undefined : loadNotifyFile(notify, env)
}

/** Returns the rail that sends notices, if there are channels. */
export function alertRails(notify: NotifySettings | undefined): readonly Rail[] {
  return notify === undefined ? [] : [alertRail(notify.channels)]
}

interface NotifierParts {
  readonly symphony: AnySymphony
  readonly log: Logger
  readonly settings: AlertSettings
}

/** Starts the AlertNotifier. Needs the roles readonly and ingest. */
export function startNotifier(
  notify: NotifySettings | undefined,
  { symphony, log, settings }: NotifierParts,
): AlertNotifier | undefined {
  if (notify === undefined) return undefined
  const { database, databaseName } = partsOf(symphony)
  const rules = alertRules(settings)
  const watch = new AlertWatch(rules)
  const notifier = new AlertNotifier({
    ...notify,
    database,
    databaseName,
    rules: rules.map(({ name }) => name),
    // Without an answer of the database the status is undefined, which raises an alert.
    evaluate: async () => watch.evaluate(await readSystemStatus(database).catch(() => undefined)),
    onSent: ({ refusal, ...notice }) => {
      if (refusal === undefined) log.info(notice, 'alert_sent')
      else log.warn({ ...notice, refusal }, 'alert_not_sent')
    },
    onError: (error) => log.warn({ err: error }, 'alert_notices_failed'),
  })
  void notifier.start()
  return notifier
}
