import { Option, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import {
  ALERTS,
  API,
  CLEANUP,
  NOTIFY,
  PROCESS,
  PROTECTION,
  RELAY,
  SCHEDULER,
  TARGET,
  type Settings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

/**
 * Commands that run until stopped. Each imports its process when it runs, because HTTP server and rails would double
 * the time of `symphony --help`.
 */

const START_SETTINGS = [
  ...TARGET,
  ...RELAY,
  ...SCHEDULER,
  ...CLEANUP,
  ...PROCESS,
  ...API,
  ...ALERTS,
  ...NOTIFY,
] as const

/**
 * Defaults of `start`, which runs in a terminal: it stops quickly and logs only warnings, so that printed text stays
 * visible.
 */
const START_DEFAULTS: Partial<Settings> = { shutdownMs: 1_500, logLevel: 'warn' }

export function registerStart(program: Command, cli: Cli): void {
  addSettings(
    program
      .command('start')
      .description(
        'run everything: PostgreSQL if none is given, schema, checks, API, relayer, lease repair, scheduler, cleanup',
      ),
    START_SETTINGS,
    START_DEFAULTS,
  )
    .addHelpText('after', START_HELP)
    .action((flags: GivenFlags) => start(flags, cli))
}

const START_HELP = `
Without --database-url and DATABASE_URL the command starts a PostgreSQL in --data-dir. It deploys the schema and
creates a login for its processes, which inherits no privileges. Without --rails there is one simulated rail, named
"simulated"; its book is rail-book.ndjson in --data-dir.

Examples:
  symphony start
  DATABASE_URL=postgres://postgres:…@db/payments symphony start --rails rails.mjs --port 8080`

async function start(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(START_SETTINGS, flags, cli, START_DEFAULTS)
  const { runStart } = await import('../processes/runStart.js')
  await runStart(settings, cli)
}

const API_SETTINGS = [...TARGET, ...PROTECTION, ...PROCESS, ...API, ...ALERTS, ...NOTIFY] as const

export function registerApi(program: Command, cli: Cli): void {
  addSettings(program.command('api').description('serve the HTTP API and the dashboard until stopped'), API_SETTINGS)
    .addHelpText('after', API_HELP)
    .action((flags: GivenFlags) => api(flags, cli))
}

const API_HELP = `
A request presents a key (symphony keys create), a token of the identity provider that --oidc names, or the token of
SYMPHONY_ACCESS_TOKEN, which has every scope. The API listens on this machine only, unless --host says otherwise; put
a TLS proxy in front of it for other machines. With --rails the API applies their field classes: it masks and refuses
fields, and encrypts them with --vault-keys. Create its login with "symphony deploy --create-login NAME=api".

Examples:
  symphony deploy --create-login web=api
  DATABASE_URL=postgres://web:…@db/payments symphony api --port 8080
  symphony api --oidc oidc.json --requests-per-second 50`

async function api(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(API_SETTINGS, flags, cli)
  const { runApi } = await import('../processes/runApi.js')
  await runApi(settings, cli)
}

const WORKER_SETTINGS = [...TARGET, ...RELAY, ...PROCESS, ...NOTIFY, 'http'] as const

export function registerWorker(program: Command, cli: Cli): void {
  addSettings(
    program.command('worker').description('dispatch items to your rails until stopped: relayer and lease repair'),
    WORKER_SETTINGS,
  )
    .addOption(new Option('--until-stdin-closes', 'stop when standard input is closed').hideHelp())
    .addHelpText('after', WORKER_HELP)
    .action((flags: GivenFlags) => worker(flags, cli))
}

const WORKER_HELP = `
The file of --rails is an ES module whose default export is an array of rails; the worker serves only these. The login
needs the role executor, and readonly for /readyz and /metrics. SIGTERM and SIGINT stop the worker: it claims nothing
more, waits up to --shutdown-ms for calls in progress and releases its leases. A second signal ends it at once.

Examples:
  symphony deploy --create-login relayer=executor+readonly
  DATABASE_URL=postgres://relayer:…@db/payments symphony worker --rails rails.mjs
  symphony worker --rails rails.mjs --config worker.json --port 9400`

async function worker(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(WORKER_SETTINGS, flags, cli)
  const { rails } = settings
  if (rails === undefined) {
    throw new InvalidArgumentError('--rails', 'expected a file; a worker without rails has nothing to dispatch to')
  }
  const { runWorker } = await import('../processes/runWorker.js')
  await runWorker({ ...settings, rails, untilStdinCloses: flags['untilStdinCloses'] === true }, cli)
}

const SCHEDULER_SETTINGS = [...TARGET, ...SCHEDULER, ...CLEANUP, 'listen', ...PROCESS, 'http'] as const

export function registerScheduler(program: Command, cli: Cli): void {
  addSettings(
    program.command('scheduler').description('turn due timers and jobs into messages until stopped'),
    SCHEDULER_SETTINGS,
  )
    .addHelpText('after', SCHEDULER_HELP)
    .action((flags: GivenFlags) => scheduler(flags, cli))
}

const SCHEDULER_HELP = `
Start any number of them: each occurrence of a job runs once. The login needs the role executor, and readonly for
/readyz and /metrics. "symphony worker" dispatches the messages. The scheduler also removes rows past their retention:
finished runs and timers, handled messages of the inbox, leases without a holder.

Examples:
  symphony deploy --create-login scheduler=executor+readonly
  DATABASE_URL=postgres://scheduler:…@db/payments symphony scheduler
  symphony scheduler --no-http --missed-after-ms 60000`

async function scheduler(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SCHEDULER_SETTINGS, flags, cli)
  const { runScheduler } = await import('../processes/runScheduler.js')
  await runScheduler(settings, cli)
}
