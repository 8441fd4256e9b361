import type { Command } from 'commander'
import { alertRules, prometheusRules, type AlertRule } from '../../observability/index.js'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { ALERTS } from '../settings.js'

/** `symphony alerts`: the rules with their thresholds, for people and for Prometheus. */
export function registerAlerts(program: Command, cli: Cli): void {
  addSettings(program.command('alerts').description('the alert rules with their thresholds'), ALERTS)
    .option('--prometheus', 'print a rules file for Prometheus')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      `
Needs no database. symphony status and the dashboard show which rules fire.

Examples:
  symphony alerts
  symphony alerts --prometheus --alert-due-seconds 600 > symphony.rules.yml`,
    )
    .action((flags: GivenFlags) => run(flags, cli))
}

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const rules = alertRules(await resolveSettings(ALERTS, flags, cli))
  if (flags['prometheus'] === true) return cli.terminal.print(prometheusRules(rules).trimEnd())
  if (flags['json'] === true) return cli.terminal.printJson({ rules: rules.map(listed) })
  const { bold, dim } = cli.terminal.colors
  for (const rule of rules) {
    cli.terminal.print(`${bold(rule.name)} ${dim(rule.severity)}`)
    cli.terminal.print(`  ${rule.summary}`)
    if (rule.threshold !== undefined) cli.terminal.print(dim(`  ${rule.threshold.setting} = ${rule.threshold.value}`))
  }
}

function listed({ name, severity, summary, firstLook, remedy, threshold }: AlertRule) {
  return { name, severity, summary, firstLook, remedy, threshold: threshold ?? null }
}
