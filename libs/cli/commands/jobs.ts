import { Option, type Command } from 'commander'
import { InvalidArgumentError, isObject, parseStrictJson, type JsonObject, type JsonValue } from '../../core/index.js'
import {
  cancelTimer,
  createOrUpdateJob,
  deleteJob,
  pauseJob,
  readJobRuns,
  readJobs,
  readTimers,
  resumeJob,
  triggerJob,
  WORK_STATES,
  type Delivery,
  type JobDefinition,
  type JobRunStatus,
  type JobStatus,
  type MissedRuns,
  type TimerStatus,
  type WorkState,
} from '../../scheduler/index.js'
import { addOperatorOptions, addPeriod, asControl, printResult, timeOf } from '../operator/operator.js'
import { addExamples, parseWholeNumber } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import { countOf, type Cli } from '../terminal/Terminal.js'

export function registerJobs(program: Command, cli: Cli): void {
  const jobs = program.command('jobs').description('cron jobs and their runs').addHelpText('after', HELP)

  addOperatorOptions(
    addExamples(jobs.command('list'), 'symphony jobs list --json').description('list every job and its next due time'),
  ).action((flags: GivenFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(jobs.command('add'), 'symphony jobs add nightly-report --cron "0 2 * * *" --topic reports')
      .description('create a job, or update the job of this name')
      .argument('<name>'),
  )
    .option('--cron <expression>', 'five fields, or six with the seconds first, or @hourly, @daily …')
    .option('--time-zone <zone>', 'time zone of the expression (default: UTC)')
    .option('--topic <topic>', 'topic of its messages')
    .option('--payload <json>', 'payload of each message (default: {})')
    .option('--participant <id>', 'participant of the messages (default: one per message)')
    .addOption(
      new Option(
        '--missed-runs <policy>',
        'policy for occurrences missed while no scheduler ran (default: once)',
      ).choices([...POLICIES]),
    )
    .addOption(
      new Option(
        '--delivery <way>',
        'outbox: a worker dispatches each message; claim: an application claims each run (default: that of the existing job, else outbox)',
      ).choices([...DELIVERIES]),
    )
    .action((name: string, flags: GivenFlags) => add(name, flags, cli))

  for (const [word, description, act] of VERBS) {
    addOperatorOptions(
      addExamples(jobs.command(word), `symphony jobs ${word} nightly-report`)
        .description(description)
        .argument('<name>'),
    ).action((name: string, flags: GivenFlags) => act(name, flags, cli))
  }

  addPeriod(
    addOperatorOptions(
      addExamples(
        jobs.command('runs'),
        'symphony jobs runs nightly-report --limit 5',
        'symphony jobs runs nightly-report --since 2026-01-01T00:00:00Z --until 2026-02-01T00:00:00Z',
      )
        .description('runs, newest first')
        .argument('[name]', 'only runs of this job'),
    ),
  )
    .addOption(new Option('--limit <n>', 'maximum number listed (default: 20)').argParser(parseWholeNumber))
    .action((name: string | undefined, flags: GivenFlags & { readonly limit?: number }) => runs(name, flags, cli))
}

const POLICIES: readonly MissedRuns[] = ['skip', 'once', 'all']
const DELIVERIES: readonly Delivery[] = ['outbox', 'claim']

const VERBS: readonly (readonly [string, string, (name: string, flags: GivenFlags, cli: Cli) => Promise<void>])[] = [
  ['pause', 'create no more runs of a job; existing runs continue', pause],
  ['resume', 'create runs again, from the next occurrence on', resume],
  ['trigger', 'create a run now, in addition to the schedule', trigger],
  ['delete', 'delete a job and its runs that have not started', remove],
]

const HELP = `
"symphony scheduler" or "symphony start" creates runs; "symphony worker" dispatches them. The login needs the role
control.

Examples:
  symphony jobs add nightly-report --cron "0 2 * * *" --time-zone Africa/Cairo --topic reports --payload '{"kind":"nightly"}'
  symphony jobs runs nightly-report --limit 5
  symphony jobs trigger nightly-report`

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const jobs = await asControl('jobs', flags, cli, readJobs)
  if (flags['json'] === true) return cli.terminal.printJson({ jobs })
  if (jobs.length === 0) cli.terminal.print('There are no jobs.')
  for (const job of jobs) printJob(job, cli)
}

function printJob(job: JobStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const when = job.state === 'PAUSED' ? 'paused' : `next at ${job.nextDueAt.toISOString()}`
  terminal.print(`${bold(job.name)} ${job.cron} ${dim(job.timeZone)} to ${job.topic}: ${when}`)
  if (job.scheduleError !== null) terminal.print(`  cannot be scheduled: ${job.scheduleError}`)
}

async function add(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const job = definitionOf(name, flags)
  const { created, state, nextDueAt } = await asControl('jobs', flags, cli, async (control) => {
    const given = DELIVERIES.find((word) => word === flags['delivery'])
    const delivery = given ?? (await readJobs(control)).find((existing) => existing.name === name)?.delivery
    return createOrUpdateJob(control, delivery === undefined ? job : { ...job, delivery })
  })
  const verb = created ? 'is defined' : 'is updated'
  const when = state === 'PAUSED' ? 'it stays paused' : `next at ${nextDueAt.toISOString()}`
  printResult({ name, created, state, nextDueAt }, `The job ${name} ${verb}; ${when}.`, flags, cli)
}

function definitionOf(name: string, flags: GivenFlags): JobDefinition {
  const { cron, timeZone, topic, payload = '{}', participant, missedRuns } = flags
  if (typeof cron !== 'string') throw new InvalidArgumentError('--cron', 'expected a cron expression')
  if (typeof topic !== 'string') throw new InvalidArgumentError('--topic', 'expected the topic of its messages')
  const policy = POLICIES.find((word) => word === missedRuns)
  return {
    name,
    cron,
    topic,
    payload: requiredObject(parseStrictJson(String(payload), { argument: '--payload' })),
    ...(typeof timeZone === 'string' ? { timeZone } : {}),
    ...(typeof participant === 'string' ? { participantId: participant } : {}),
    ...(policy === undefined ? {} : { missedRuns: policy }),
  }
}

function requiredObject(value: JsonValue): JsonObject {
  if (isObject(value)) return value
  throw new InvalidArgumentError('--payload', 'expected a JSON object')
}

async function pause(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const changed = await asControl('jobs', flags, cli, (control) => pauseJob(control, name))
  printResult({ name, changed }, `The job ${name} ${changed ? 'is paused' : 'was paused already'}.`, flags, cli)
}

async function resume(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const changed = await asControl('jobs', flags, cli, (control) => resumeJob(control, name))
  printResult({ name, changed }, `The job ${name} ${changed ? 'is resumed' : 'was not paused'}.`, flags, cli)
}

async function trigger(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const run = await asControl('jobs', flags, cli, (control) => triggerJob(control, name))
  printResult(run, `A run of ${name} is due now: ${run.runId}.`, flags, cli)
}

async function remove(name: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const result = await asControl('jobs', flags, cli, (control) => deleteJob(control, name))
  const sentence = result.deleted
    ? `The job ${name} is deleted, and ${countOf(result.runsRemoved, 'run')} that had not begun.`
    : `There was no job ${name}.`
  printResult({ name, ...result }, sentence, flags, cli)
}

async function runs(
  jobName: string | undefined,
  flags: GivenFlags & { readonly limit?: number },
  cli: Cli,
): Promise<void> {
  const { limit = LISTED } = flags
  const search = { limit, ...timeOf('since', flags), ...timeOf('until', flags) }
  const found = await asControl('jobs', flags, cli, (control) =>
    readJobRuns(control, { ...search, ...(jobName === undefined ? {} : { jobName }) }),
  )
  if (flags['json'] === true) return cli.terminal.printJson({ runs: found })
  if (found.length === 0) cli.terminal.print('There are no runs.')
  for (const run of found) printRun(run, cli)
}

function printRun(run: JobRunStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const state = run.outboxState === null ? run.state : `${run.state} (${run.outboxState} in the outbox)`
  const ended = run.finishedAt === null ? '' : `, ended ${run.finishedAt.toISOString()}`
  const by = run.triggeredBy === null ? '' : ` by ${run.triggeredBy}`
  terminal.print(`${run.scheduledFor.toISOString()} ${bold(run.jobName)}${by} ${state}${ended} ${dim(run.runId)}`)
  if (run.error !== null) terminal.print(`  ${run.error}`)
}

type TimerFlags = GivenFlags & { readonly state?: WorkState; readonly topic?: string; readonly limit?: number }

export function registerTimers(program: Command, cli: Cli): void {
  const timers = program.command('timers').description('one-shot timers').addHelpText('after', TIMERS_HELP)

  addOperatorOptions(
    addExamples(
      timers.command('list'),
      'symphony timers list --topic reminders --limit 100',
      'symphony timers list --state FAILED --json',
    ).description('list timers, the next due first'),
  )
    .addOption(new Option('--state <state>', 'only timers in this state (default: READY)').choices([...WORK_STATES]))
    .option('--topic <topic>', 'only timers of this topic')
    .addOption(new Option('--limit <n>', 'maximum number listed (default: 20)').argParser(parseWholeNumber))
    .action((flags: TimerFlags) => listTimers(flags, cli))

  addOperatorOptions(
    addExamples(timers.command('cancel'), 'symphony timers cancel 0199c0de-0000-7000-8000-000000000000')
      .description('cancel a timer, even one that a worker has claimed')
      .argument('<id>'),
  ).action((timerId: string, flags: GivenFlags) => cancelTimerById(timerId, flags, cli))
}

const TIMERS_HELP = `
An application schedules a timer in its own transaction. When the timer is due, it becomes a message. The login needs
the role control.

Examples:
  symphony timers list --topic reminders --limit 100
  symphony timers list --state FAILED --json
  symphony timers cancel 0199c0de-0000-7000-8000-000000000000`

async function listTimers(flags: TimerFlags, cli: Cli): Promise<void> {
  const { state = 'READY', topic, limit = LISTED } = flags
  const timers = await asControl('timers', flags, cli, (control) =>
    readTimers(control, { state, limit, ...(topic === undefined ? {} : { topic }) }),
  )
  if (flags['json'] === true) return cli.terminal.printJson({ timers })
  if (timers.length === 0) cli.terminal.print(`There are no timers that are ${state}.`)
  for (const timer of timers) printTimer(timer, cli)
}

function printTimer(timer: TimerStatus, { terminal }: Cli): void {
  const { bold, dim } = terminal.colors
  const ended = timer.finishedAt === null ? '' : `, ended ${timer.finishedAt.toISOString()}`
  terminal.print(`${timer.dueAt.toISOString()} ${bold(timer.topic)} ${timer.state}${ended} ${dim(timer.timerId)}`)
  if (timer.error !== null) terminal.print(`  ${timer.error}`)
}

async function cancelTimerById(timerId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const cancelled = await asControl('timers', flags, cli, (control) => cancelTimer(control, timerId))
  const sentence = cancelled
    ? `The timer ${timerId} is cancelled.`
    : `There is nothing to cancel: the timer ${timerId} has ended or does not exist.`
  printResult({ timerId, cancelled }, sentence, flags, cli)
}

const LISTED = 20
