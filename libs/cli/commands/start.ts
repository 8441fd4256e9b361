import type { Command } from 'commander'
import type { Cli } from '../Cli.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { ALERTS, API, CLEANUP, PROCESS, RELAY, SCHEDULER, TARGET, type Settings } from '../settings.js'

const SETTINGS_TAKEN = [...TARGET, ...RELAY, ...SCHEDULER, ...CLEANUP, ...PROCESS, ...API, ...ALERTS] as const

/** Somebody is sitting in front of it: a stop is felt, and log lines hide what was printed. */
const DEFAULTS: Partial<Settings> = { shutdownMs: 1_500, logLevel: 'warn' }

/** `symphony start`: everything in one process, in the foreground. */
export function registerStart(program: Command, cli: Cli): void {
  addSettings(
    program
      .command('start')
      .description(
        'everything: PostgreSQL if none is given, schema, checks, API, relayer, lease repair, scheduler, cleanup',
      ),
    SETTINGS_TAKEN,
    DEFAULTS,
  )
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
Without --database-url and DATABASE_URL it starts a PostgreSQL of its own in --data-dir. The schema is deployed, and the
processes log in as a login made for them, which inherits nothing. Without --rails there is one simulated rail, named
"simulated", whose book is rail-book.ndjson in --data-dir.

Examples:
  symphony start
  DATABASE_URL=postgres://postgres:…@db/payments symphony start --rails rails.mjs --port 8080`

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli, DEFAULTS)
  const { runStart } = await import('../runStart.js')
  await runStart(settings, cli)
}
