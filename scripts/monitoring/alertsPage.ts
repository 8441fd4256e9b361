import type { AlertRule } from '../../libs/observability/index.js'
import { wrapMarkdown } from '../wrapMarkdown.mjs'

/** Further notes for operators, by rule. */
const NOTES: Readonly<Record<string, string>> = {
  SymphonyOldestUnfinishedAge: 'A payment scheduled for later counts from its creation once it has been attempted.',
  SymphonyDispatchFrozen: '[Before you lift the freeze](../operate/restore.md#before-you-lift-the-freeze).',
  SymphonyLedgerChainBroken:
    'The alert shows the last recorded verification: run `symphony ledger verify` by cron. `--textfile FILE` also ' +
    'writes the result for node_exporter, for a verification of an export.',
  SymphonySealingHeldBack:
    'Grant `pg_read_all_stats` to `symphony_owner` to see the age of the transaction in the alert. PostgreSQL shows ' +
    'pid, user, application and database without it.',
}

/** Returns the page `docs/reference/alerts.md`. */
export function alertsPage(rules: readonly AlertRule[]): string {
  return wrapMarkdown(`# Alerts

For operators: every alert with its first check and remedy. \`critical\`: payments wait or outcomes are uncertain, act now. \`warning\`: act today. [Troubleshooting](../operate/troubleshooting.md) explains the faults.

- **With Prometheus:** load \`deploy/prometheus/symphony.rules.yml\` with \`rule_files:\` and route by the label \`severity\`. \`promtool test rules\` runs its tests. Conditions are per \`job\`, so one Prometheus can watch several deployments.
- **Without Prometheus:** \`symphony status\`, \`GET /v1/alerts\` and the dashboard evaluate the same rules.
- **Notices** to Slack, PagerDuty or a webhook: [below](#notices).

Conditions and ages come from the database, so every process shows the same alerts, except \`SymphonyStatusMissing\`. Attempts of the last 15 minutes are counted per minute, so \`since\` of their alerts is up to a minute before the first attempt.

## Thresholds

Thresholds are [settings](options.md#alert-thresholds) of \`start\`, \`api\` and \`status\`. Each alert names its setting in parentheses. \`symphony alerts\` and \`GET /v1/alerts\` show them. To write a rules file with other thresholds:

\`\`\`console
symphony alerts --prometheus --alert-due-seconds 600 > symphony.rules.yml
\`\`\`

## Notices

Processes with the setting [\`notify\`](options.md#alert-notices) tell Slack, PagerDuty or a webhook of yours when an alert fires, every four hours while it fires, and when it has ended. \`symphony alerts test --notify notify.json\` sends a test message.

- \`api\` and \`start\` evaluate the rules every 15 s. Each notice is a message of the topic \`symphony.alerts\`, which \`worker\` and \`start\` send in order per alert, with retries. Several processes send it once. A restart neither repeats nor loses a notice.
- An alert has ended when two rounds in a row do not find it. A round without the status of the database decides nothing.
- The HTTP API refuses payments to that topic and ids that begin with \`alert:\`, because they could forge a notice.
- No worker sends messages during \`SymphonyDispatchFrozen\`, \`SymphonyAllPaused\` and \`SymphonyNoWorkerAlive\`. The process that sees one sends the notice itself, at most three times, and cancels the message. If the channel refuses it, a later round repeats it.
- Any process also sends the notice of a firing alert itself if no worker has tried it within a minute. If a worker has claimed its message meanwhile, the channel may get the notice twice. Only workers send the end of an alert.
- Without the database (\`SymphonyStatusMissing\`) each process sends its own notice and its end, from memory. A process that is killed meanwhile sends no end.

${rules.map(section).join('\n\n')}

Generated from \`libs/observability/alerts/rules.ts\` by \`npm run monitoring\`.
`)
}

function section({ name, severity, forSeconds, summary, threshold, firstLook, remedy }: AlertRule): string {
  const since = forSeconds === 0 ? '' : `, after ${forSeconds / 60} min`
  const setting = threshold === undefined ? '' : ` (\`${threshold.setting}\`)`
  const parts = [
    `## ${name}`,
    `\`${severity}\`${since}${setting}. ${summary}`,
    `**First look.** ${firstLook}`,
    `**Remedy.** ${remedy}`,
  ]
  const note = NOTES[name]
  return (note === undefined ? parts : [...parts, note]).join('\n\n')
}
