import { Option, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import {
  ALERTS,
  API,
  CLEANUP,
  PROCESS,
  PROTECTION,
  RELAY,
  SCHEDULER,
  TARGET,
  type Settings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

/**
 * Commands that run until stopped. Each imports its process when it runs: `symphony --help` takes 0.5 s, and would take twice as
 * long with the HTTP server and the rails loaded.
 */

const START_SETTINGS = [...TARGET, ...RELAY, ...SCHEDULER, ...CLEANUP, ...PROCESS, ...API, ...ALERTS] as const

/** `start` runs in a terminal: it should stop fast, and log lines would hide the printed text. */
const START_DEFAULTS: Partial<Settings> = { shutdownMs: 1_500, logLevel: 'warn' }

/** `symphony start`: everything in one process, in the foreground. */
export function registerStart(program: Command, cli: Cli): void {
  addSettings(
    program
      .command('start')
      .description(
        'everything: PostgreSQL if none is given, schema, checks, API, relayer, lease repair, scheduler, cleanup',
      ),
    START_SETTINGS,
    START_DEFAULTS,
  )
    .addHelpText('after', START_HELP)
    .action((flags: GivenFlags) => start(flags, cli))
}

const START_HELP = `
Without --database-url and DATABASE_URL it starts a PostgreSQL of its own in --data-dir. The schema is deployed, and the
processes log in as a login made for them, which inherits nothing. Without --rails there is one simulated rail, named
"simulated", whose book is rail-book.ndjson in --data-dir.

Examples:
  symphony start
  DATABASE_URL=postgres://postgres:…@db/payments symphony start --rails rails.mjs --port 8080`

async function start(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(START_SETTINGS, flags, cli, START_DEFAULTS)
  const { runStart } = await import('../processes/runStart.js')
  await runStart(settings, cli)
}

const API_SETTINGS = [...TARGET, ...PROTECTION, ...PROCESS, ...API, ...ALERTS] as const

/** `symphony api`: the HTTP API and the dashboard alone, one of the processes of a deployment. */
export function registerApi(program: Command, cli: Cli): void {
  addSettings(
    program.command('api').description('serve the HTTP API and the dashboard until stopped, and nothing else'),
    API_SETTINGS,
  )
    .addHelpText('after', API_HELP)
    .action((flags: GivenFlags) => api(flags, cli))
}

const API_HELP = `
Who asks shows a key (symphony keys create), a token of the identity provider that --oidc names, or the token of
SYMPHONY_ACCESS_TOKEN, which may do everything. It listens on this machine alone unless --host says otherwise; put TLS
before it where others come in. The login needs what "symphony deploy --create-login NAME=api" gives it. What your rails say
about the fields of payloads (--rails) it does: it masks, it refuses, and with --vault-keys it encrypts.

Examples:
  symphony deploy --create-login web=api
  DATABASE_URL=postgres://web:…@db/payments symphony api --port 8080
  symphony api --oidc oidc.json --requests-per-second 50`

async function api(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(API_SETTINGS, flags, cli)
  const { runApi } = await import('../processes/runApi.js')
  await runApi(settings, cli)
}

const WORKER_SETTINGS = [...TARGET, ...RELAY, ...PROCESS, 'http'] as const

/** `symphony worker`: the relayer and lease repair alone, one of many processes of a deployment. */
export function registerWorker(program: Command, cli: Cli): void {
  addSettings(
    program.command('worker').description('carry items to your rails until stopped: relayer and lease repair'),
    WORKER_SETTINGS,
  )
    .addOption(new Option('--until-stdin-closes', 'stop when standard input is closed').hideHelp())
    .addHelpText('after', WORKER_HELP)
    .action((flags: GivenFlags) => worker(flags, cli))
}

const WORKER_HELP = `
The file of --rails is an ES module whose default export is an array of rails; only those are served. The login needs
the role executor, and readonly for /readyz and /metrics. SIGTERM and SIGINT stop it: claims end, calls in progress
get --shutdown-ms, leases go back. A second signal ends it at once.

Examples:
  symphony deploy --create-login relayer=executor+readonly
  DATABASE_URL=postgres://relayer:…@db/payments symphony worker --rails rails.mjs
  symphony worker --rails rails.mjs --config worker.json --port 9400`

async function worker(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(WORKER_SETTINGS, flags, cli)
  const { rails } = settings
  if (rails === undefined) {
    throw new InvalidArgumentError('--rails', 'expected a file; without rails there is nowhere to carry anything')
  }
  const { runWorker } = await import('../processes/runWorker.js')
  await runWorker({ ...settings, rails, untilStdinCloses: flags['untilStdinCloses'] === true }, cli)
}

const SCHEDULER_SETTINGS = [...TARGET, ...SCHEDULER, ...CLEANUP, 'listen', ...PROCESS, 'http'] as const

/** `symphony scheduler`: timers and jobs alone, one of many processes of a deployment. */
export function registerScheduler(program: Command, cli: Cli): void {
  addSettings(
    program.command('scheduler').description('make messages of due timers and jobs until stopped'),
    SCHEDULER_SETTINGS,
  )
    .addHelpText('after', SCHEDULER_HELP)
    .action((flags: GivenFlags) => scheduler(flags, cli))
}

const SCHEDULER_HELP = `
Start as many as you like: each occurrence of a job is run once. The login needs the role executor, and readonly for
/readyz and /metrics. What it makes is carried by "symphony worker". It also removes what is finished and past its
retention: runs, timers, handled messages of the inbox, leases that nobody holds.

Examples:
  symphony deploy --create-login scheduler=executor+readonly
  DATABASE_URL=postgres://scheduler:…@db/payments symphony scheduler
  symphony scheduler --no-http --missed-after-ms 60000`

async function scheduler(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SCHEDULER_SETTINGS, flags, cli)
  const { runScheduler } = await import('../processes/runScheduler.js')
  await runScheduler(settings, cli)
}
