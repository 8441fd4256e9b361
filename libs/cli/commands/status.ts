import type { Command } from 'commander'
import { InvalidArgumentError, SymphonyError } from '../../core/index.js'
import type { Database } from '../../db/index.js'
import { alertRules, AlertWatch, prometheusRules, type Alert, type AlertRule } from '../../observability/index.js'
import {
  readPauses,
  readWorkerReports,
  type OutboxStatus,
  type PauseView,
  type WorkerReport,
} from '../../outbox/index.js'
import { sleep } from '../../worker/index.js'
import { readSystemStatus } from '../../symphony/index.js'
import { withTarget } from '../database/target.js'
import { describeFreeze, describePause } from '../operator/wording.js'
import { addExamples, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { ALERTS, NOTIFY, TARGET, type AlertSettings } from '../settings/settings.js'
import { countOf, type Cli, type Colors } from '../terminal/Terminal.js'

export function registerStatus(program: Command, cli: Cli): void {
  addSettings(program.command('status').description('show the counts of the queue, the pauses and the active alerts'), [
    ...TARGET,
    ...ALERTS,
  ])
    .addOption(jsonOption())
    .option('--watch', 'refresh every second until stopped')
    .addHelpText(
      'after',
      `
Examples:
  symphony status --watch
  symphony status --json | jq .heldCount
  symphony status --json | jq '.alerts[] | select(.state == "firing")'

Alerts come from the database: every process shows the same ones, with the same age. symphony alerts lists the rules.`,
    )
    .action((flags: GivenFlags) => runStatus(flags, cli))
}

async function runStatus(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings([...TARGET, ...ALERTS], flags, cli)
  await withTarget(settings, 'status', async (database) => {
    const printStatus = createStatusPrinter(database, settings, flags, cli)
    do await printStatus()
    while (flags['watch'] === true && (await oneSecondLater(cli.signal)))
  })
}

function createStatusPrinter(
  database: Database,
  thresholds: AlertSettings,
  { json, watch }: GivenFlags,
  { terminal }: Cli,
): () => Promise<void> {
  const alerts = new AlertWatch(alertRules(thresholds))
  return async () => {
    const status = await readSystemStatus(database)
    const evaluated = await alerts.evaluate(status)
    const { outbox, epoch, inbox, scheduler, leases } = status
    const pauses = await readPauses(database.as('symphony_readonly'))
    if (json === true)
      return terminal.printJson({
        ...outbox,
        dispatchFrozen: epoch?.frozen === true,
        pauses,
        inbox,
        scheduler,
        leases,
        alerts: evaluated,
      })
    const freeze = describeFreeze(epoch).map(terminal.colors.red)
    const lines = [
      ...freeze,
      ...describePauses(pauses).map(terminal.colors.red),
      ...describeStatus(outbox, terminal.colors),
      '',
      ...describeAlerts(evaluated, terminal.colors),
    ]
    if (watch === true) terminal.printPage(lines)
    else for (const line of lines) terminal.print(line)
  }
}

const PAUSES_SHOWN = 10

/** Returns lines about the current pauses, a pause of everything first. */
function describePauses(pauses: readonly PauseView[]): readonly string[] {
  const sorted = [...pauses.filter(({ kind }) => kind === 'all'), ...pauses.filter(({ kind }) => kind !== 'all')]
  const [first] = sorted
  if (first === undefined) return []
  const hidden = sorted.length - PAUSES_SHOWN
  return [
    ...sorted.slice(0, PAUSES_SHOWN).map(describePause),
    ...(hidden > 0 ? [`  and ${hidden} more: symphony status --json`] : []),
    `  symphony resume ${first.kind === 'all' ? 'all' : `${first.kind} ${first.name}`} --reason …`,
    '',
  ]
}

async function oneSecondLater(signal: AbortSignal): Promise<boolean> {
  await sleep(1_000, signal)
  return !signal.aborted
}

type Paint = (text: string) => string

function describeStatus(status: OutboxStatus, { bold, dim, yellow, red, magenta }: Colors): readonly string[] {
  const { message } = status.kinds
  const rows: readonly [string, bigint, string, Paint?][] = [
    [
      'pending',
      status.pendingCount,
      `oldest ${duration(status.oldestPendingAgeSeconds)}${messagesIn(message.pending)}${countedAgo(status)}`,
      bold,
    ],
    [
      '  due',
      status.dueUnleasedCount,
      `on paused rails too; longest waiting ${duration(status.oldestDueAgeSeconds)}${messagesIn(message.due)}`,
    ],
    ['  scheduled', status.scheduledCount, 'for a later time, or for a retry'],
    ['  leased', status.leasedCount, 'in flight'],
    [
      '  expired',
      status.expiredLeaseCount,
      'leases that no worker has taken over yet',
      alarming(status.expiredLeaseCount, yellow),
    ],
    ['  blocked', status.blockedCount, 'behind an earlier payment, or of a paused participant or stream'],
    ['  held', status.heldCount, 'until operators decide: symphony holds list', alarming(status.heldCount, red)],
    [
      'unknown',
      status.outcomeUnknownCount,
      'pending payments that the rail may have paid',
      alarming(status.outcomeUnknownCount, magenta),
    ],
    [
      'dispatched',
      status.dispatchedTotal,
      `${status.dispatchedLastHour} in the last hour${messagesIn(message.dispatched)}`,
      bold,
    ],
    ['failed', status.failedTotal, `${status.failedLastHour} in the last hour${messagesIn(message.failed)}`, bold],
    ['  cancelled', status.cancelledTotal, 'of the failed: ended before they were sent'],
    ['retries', status.retryableTotal, `${status.retryableLastHour} in the last hour`],
    ['requeues', status.zombieRequeueTotal, 'leases that expired'],
  ]
  return rows.map(
    ([word, count, note, paint = String]) => `${word.padEnd(12)} ${paint(String(count).padStart(10))}  ${dim(note)}`,
  )
}

function messagesIn(count: number): string {
  return count === 0 ? '' : `; ${countOf(count, 'message')}, the rest payments`
}

/** Says how old the counts of a large queue are. Counts of a smaller one are exact. */
function countedAgo({ countsAgeSeconds }: OutboxStatus): string {
  return countsAgeSeconds < 1 ? '' : `; counted ${duration(countsAgeSeconds)} ago`
}

function describeAlerts(alerts: readonly Alert[], { bold, dim, yellow, red }: Colors): readonly string[] {
  if (alerts.length === 0) return [dim('No alert.')]
  return alerts.flatMap(({ name, state, severity, summary, firstLook, since, detail }) => {
    const paint = state === 'pending' ? dim : severity === 'critical' ? red : yellow
    return [
      `${paint(state.toUpperCase().padEnd(12))} ${bold(name)}  ${summary}`,
      ...(detail === undefined ? [] : [`${' '.repeat(13)}${detail}`]),
      `${' '.repeat(13)}${dim(`since ${since}. ${firstLook}`)}`,
    ]
  })
}

function alarming(count: bigint, paint: Paint): Paint {
  return count > 0n ? paint : String
}

function duration(seconds: number): string {
  const whole = Math.floor(seconds)
  if (whole < 120) return `${whole} s`
  if (whole < 7_200) return `${Math.floor(whole / 60)} min`
  return `${Math.floor(whole / 3_600)} h`
}

export function registerWorkers(program: Command, cli: Cli): void {
  const workers = addSettings(
    program
      .command('workers')
      .description('list relayers that reported within a day and did not stop, with their leases'),
    TARGET,
  )
    .addOption(jsonOption())
    .action((flags: GivenFlags) => runWorkers(flags, cli))
  addExamples(workers, 'symphony workers', "symphony workers --json | jq '.workers[] | select(.deadSince)'")
}

async function runWorkers(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(TARGET, flags, cli)
  const reports = await withTarget(settings, 'workers', (database) =>
    readWorkerReports(database.as('symphony_readonly')),
  )
  const workers = reports.map((report) => Object.assign(report, { deadSince: report.alive ? null : report.lastSeenAt }))
  if (flags['json'] === true) return cli.terminal.printJson({ workers })
  if (workers.length === 0) cli.terminal.print('No worker.')
  for (const worker of workers) printWorker(worker, cli)
}

function printWorker(worker: WorkerReport & { readonly deadSince: string | null }, { terminal }: Cli): void {
  const { bold, dim, green, red } = terminal.colors
  const { workerId, deadSince, startedAt, leases, detail } = worker
  const state = deadSince === null ? green('alive') : red(`dead since ${deadSince}`)
  terminal.print(`${bold(workerId)} ${state}, ${leases} ${leases === 1 ? 'lease' : 'leases'}, started ${startedAt}`)
  const { unknownCode, clockJump } = detail
  if (unknownCode !== undefined) terminal.print(dim(`  last unknown code: ${JSON.stringify(unknownCode)}`))
  if (clockJump !== undefined) terminal.print(dim(`  last clock jump: ${JSON.stringify(clockJump)}`))
}

export function registerAlerts(program: Command, cli: Cli): void {
  const alerts = addSettings(
    program.command('alerts').description('list the alert rules with their thresholds'),
    ALERTS,
  )
    .option('--prometheus', 'print a rules file for Prometheus')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
This command needs no database. symphony status and the dashboard show which rules fire.

Examples:
  symphony alerts
  symphony alerts --prometheus --alert-due-seconds 600 > symphony.rules.yml
  symphony alerts test --notify notify.json`,
    )
    .action((flags: GivenFlags) => runAlerts(flags, cli))
  const test = addSettings(
    alerts.command('test').description('send a test message to each channel of --notify'),
    NOTIFY,
  )
    .addOption(jsonOption())
    // `alerts` declares --json and --config as well, and commander stores them there.
    .action((_flags: GivenFlags, command: Command) => runAlertsTest(command.optsWithGlobals(), cli))
  addExamples(test, 'symphony alerts test --notify notify.json')
}

async function runAlertsTest(flags: GivenFlags, cli: Cli): Promise<void> {
  const { notify } = await resolveSettings(NOTIFY, flags, cli)
  if (notify === undefined) throw new InvalidArgumentError('--notify', 'expected the file of the channels')
  const { loadNotifyFile, sendTestNotices } = await import('../processes/alertChannels.js')
  const { channels } = await loadNotifyFile(notify, cli.env)
  const refusals = await sendTestNotices(channels)
  const results = channels.map(({ name, format }) => ({ name, format, refusal: refusals.get(name) ?? null }))
  if (flags['json'] === true) cli.terminal.printJson({ channels: results })
  else {
    for (const { name, format, refusal } of results) {
      if (refusal === null) cli.terminal.print(`${name} (${format}) accepted the test message.`)
    }
  }
  if (refusals.size === 0) return
  const list = [...refusals].map(([name, refusal]) => `${name}: ${refusal}`).join('; ')
  throw new SymphonyError('NOT_SENT', `A test message was not accepted: ${list}.`, {
    remedy: 'Check the URL and the key of the channel, and that this machine may reach it.',
  })
}

async function runAlerts(flags: GivenFlags, cli: Cli): Promise<void> {
  const rules = alertRules(await resolveSettings(ALERTS, flags, cli))
  if (flags['prometheus'] === true) return cli.terminal.print(prometheusRules(rules).trimEnd())
  if (flags['json'] === true) return cli.terminal.printJson({ rules: rules.map(listedRule) })
  const { bold, dim } = cli.terminal.colors
  for (const rule of rules) {
    cli.terminal.print(`${bold(rule.name)} ${dim(rule.severity)}`)
    cli.terminal.print(`  ${rule.summary}`)
    if (rule.threshold !== undefined) cli.terminal.print(dim(`  ${rule.threshold.setting} = ${rule.threshold.value}`))
  }
}

function listedRule({ name, severity, summary, firstLook, remedy, threshold }: AlertRule) {
  return { name, severity, summary, firstLook, remedy, threshold: threshold ?? null }
}
