import { Option, type Command } from 'commander'
import { InvalidArgumentError } from '../../core/index.js'
import type { Cli } from '../Cli.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { PROCESS, RELAY, TARGET } from '../settings.js'

const SETTINGS_TAKEN = [...TARGET, ...RELAY, ...PROCESS, 'http'] as const

/** `symphony worker`: the relayer and lease repair alone, one of many processes of a deployment. */
export function registerWorker(program: Command, cli: Cli): void {
  addSettings(
    program.command('worker').description('carry items to your rails until stopped: relayer and lease repair'),
    SETTINGS_TAKEN,
  )
    .addOption(new Option('--until-stdin-closes', 'stop when standard input is closed').hideHelp())
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
The file of --rails is an ES module whose default export is an array of rails; only those are served. The login needs
the role executor, and readonly for /readyz and /metrics. SIGTERM and SIGINT stop it: claims end, calls in progress
get --shutdown-ms, leases go back. A second signal ends it at once.

Examples:
  symphony deploy --create-login relayer=executor+readonly
  DATABASE_URL=postgres://relayer:…@db/payments symphony worker --rails rails.mjs
  symphony worker --rails rails.mjs --config worker.json --port 9400`

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli)
  const { rails } = settings
  if (rails === undefined) {
    throw new InvalidArgumentError('--rails', 'expected a file; without rails there is nowhere to carry anything')
  }
  // Loaded when asked for: `symphony status` should not wait for what only a worker needs.
  const { runWorker } = await import('../runWorker.js')
  await runWorker({ ...settings, rails, untilStdinCloses: flags['untilStdinCloses'] === true }, cli)
}
