import { Option, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import {
  approveOutboxLimit,
  proposeOutboxLimit,
  readLimits,
  withdrawOutboxLimit,
  type LimitRule,
  type LimitRuleView,
} from '../../outbox/index.js'
import { addOperatorOptions, asControl, printResult, reasonOption, requiredReason } from '../operator/operator.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerLimits(program: Command, cli: Cli): void {
  const limits = program.command('limits').description('rules that hold unusual payments; two people set a limit')
  addExamples(
    limits,
    'symphony limits list',
    'symphony limits propose sepa-large --kind approval --limit 10000.00 --currency EUR --rail sepa --approvals 2 \\',
    '    --reason RISK-17',
    'symphony limits approve 01981…    # as someone else',
  )
  addExamples(
    addOperatorOptions(
      limits.command('list').description('limits in force, the usage of their windows, and open proposals'),
    ).action((flags: GivenFlags) => runList(flags, cli)),
    'symphony limits list',
    'symphony limits list --json',
  )

  const propose = addOperatorOptions(
    limits
      .command('propose')
      .description('propose to set, change or remove a limit; someone else must approve it')
      .argument('<name>', 'name of the limit'),
  )
    .addOption(
      new Option('--kind <kind>', 'approval: above an amount; amount, count: sum or number of payments per window') //
        .choices(['approval', 'amount', 'count']),
    )
    .option('--limit <value>', 'amount as in 250000.00, or for count a number of payments')
    .option('--currency <code>', 'currency of the amount; none for count')
    .option('--rail <name>', 'only payments of this rail')
    .option('--participant <id>', 'only payments of this participant')
    .option('--window <length>', 'rolling window, as in 15m, 1h, 1d or 30d; none for approval')
    .addOption(
      new Option('--approvals <n>', 'people who release a payment above the amount: 1 or 2').argParser(
        parseWholeNumber,
      ),
    )
    .option('--remove', 'propose to remove the limit instead')
    .addOption(reasonOption())
    .action((name: string, flags: GivenFlags) => runPropose(name, flags, cli))
  addExamples(
    propose,
    'symphony limits propose acme-daily --kind amount --limit 250000.00 --currency EUR --participant acme --window 1d \\',
    '    --reason RISK-17',
    'symphony limits propose momo-hourly --kind count --limit 5000 --rail momo --window 1h --reason RISK-18',
    'symphony limits propose momo-hourly --remove --reason RISK-21',
  )

  addExamples(
    addOperatorOptions(
      limits
        .command('approve')
        .description('approve the limit that someone else has proposed; it takes effect at once')
        .argument('<proposal-id>'),
    ).action((proposalId: string, flags: GivenFlags) => runApprove(proposalId, flags, cli)),
    'symphony limits approve 01981…',
  )

  addExamples(
    addOperatorOptions(
      limits
        .command('withdraw')
        .description('withdraw or refuse the proposal of a limit; the limit stays as it is')
        .argument('<proposal-id>'),
    )
      .addOption(reasonOption())
      .action((proposalId: string, flags: GivenFlags) => runWithdraw(proposalId, flags, cli)),
    'symphony limits withdraw 01981… --reason "the limit is too low"',
  )
}

async function runList(flags: GivenFlags, cli: Cli): Promise<void> {
  const { limits, proposals } = await asControl('limits', flags, cli, readLimits)
  if (flags['json'] === true) return cli.terminal.printJson({ limits, proposals })
  const { bold, dim } = cli.terminal.colors
  if (limits.length === 0) cli.terminal.print('No limit is set.')
  for (const limit of limits) {
    const used = limit.used === null ? '' : `, used ${limit.used}`
    cli.terminal.print(`${bold(limit.name)} ${describeRule(limit)}${used}`)
    if (limit.exceededAt !== null)
      cli.terminal.print(`  ${dim('exceeded')} at ${limit.exceededAt}: later payments are held`)
    cli.terminal.print(`  ${dim('set')} at ${limit.setAt} by ${limit.setBy}`)
  }
  for (const { proposalId, name, rule, reason, proposedBy, proposedAt } of proposals) {
    cli.terminal.print(`${bold(proposalId)} proposed: ${name} ${rule === null ? 'removed' : describeRule(rule)}`)
    cli.terminal.print(`  ${dim('by')} ${proposedBy} at ${proposedAt}: ${reason}`)
  }
}

async function runPropose(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const rule = flags['remove'] === true ? null : ruleOf(flags)
  const proposalId = await asControl('limits', flags, cli, (control) => proposeOutboxLimit(control, name, rule, reason))
  const what = rule === null ? `The removal of the limit ${name}` : `The limit ${name}`
  const sentence = `${what} is proposed. Someone else approves it: symphony limits approve ${proposalId}`
  printResult({ name, proposalId }, sentence, flags, cli)
}

async function runApprove(proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const name = await asControl('limits', flags, cli, (control) => approveOutboxLimit(control, proposalId))
  printResult({ proposalId, name }, `The proposal of the limit ${name} is approved and in effect.`, flags, cli)
}

async function runWithdraw(proposalId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  await asControl('limits', flags, cli, (control) => withdrawOutboxLimit(control, proposalId, reason))
  printResult({ proposalId, withdrawn: true }, `The proposal ${proposalId} is withdrawn.`, flags, cli)
}

/** Returns the rule in the flags. The database checks the combination of its fields. */
function ruleOf(flags: GivenFlags & { readonly approvals?: unknown }): LimitRule {
  const { kind, limit, currency, rail, participant, window, approvals } = flags
  if (kind !== 'approval' && kind !== 'amount' && kind !== 'count') {
    throw new InvalidArgumentError('--kind', 'expected approval, amount or count, or --remove')
  }
  if (typeof limit !== 'string') throw new InvalidArgumentError('--limit', 'expected an amount or a number of payments')
  return {
    kind,
    limit,
    ...(typeof currency === 'string' ? { currency } : {}),
    ...(typeof rail === 'string' ? { railType: rail } : {}),
    ...(typeof participant === 'string' ? { participantId: participant } : {}),
    ...(typeof window === 'string' ? { windowSeconds: parseWindow(window) } : {}),
    ...(typeof approvals === 'number' ? { approvals } : {}),
  }
}

function parseWindow(text: string): number {
  const [, number = '', unit = ''] = /^([1-9]\d{0,6})([smhd])$/.exec(text) ?? []
  const seconds = UNITS[unit]
  if (seconds === undefined) throw new InvalidArgumentError('--window', 'expected a length such as 15m, 1h or 30d')
  return Number(number) * seconds
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 }

/** Returns a text such as `participant acme: at most 250000.00 EUR per 86400 s`. */
function describeRule({
  kind,
  railType,
  participantId,
  currency,
  limit,
  windowSeconds,
  approvals,
}: LimitRuleView): string {
  const subject = [
    ...(railType === null ? [] : [`rail ${railType}`]),
    ...(participantId === null ? [] : [`participant ${participantId}`]),
  ].join(', ')
  if (kind === 'approval') return `${subject}: above ${limit} ${currency}, released by ${approvals}`
  const what = kind === 'count' ? `${limit} payments` : `${limit} ${currency}`
  return `${subject}: at most ${what} per ${windowSeconds} s`
}
