import type { Command } from 'commander'
import type { Cli } from '../Cli.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { CLEANUP, PROCESS, SCHEDULER, TARGET } from '../settings.js'

const SETTINGS_TAKEN = [...TARGET, ...SCHEDULER, ...CLEANUP, 'listen', ...PROCESS, 'http'] as const

/** `symphony scheduler`: timers and jobs alone, one of many processes of a deployment. */
export function registerScheduler(program: Command, cli: Cli): void {
  addSettings(
    program.command('scheduler').description('make messages of due timers and jobs until stopped'),
    SETTINGS_TAKEN,
  )
    .addHelpText('after', HELP)
    .action((flags: GivenFlags) => run(flags, cli))
}

const HELP = `
Start as many as you like: each occurrence of a job is run once. The login needs the role executor, and readonly for
/readyz and /metrics. What it makes is carried by "symphony worker". It also removes what is finished and past its
retention: runs, timers, handled messages of the inbox, leases that nobody holds.

Examples:
  symphony deploy --create-login scheduler=executor+readonly
  DATABASE_URL=postgres://scheduler:…@db/payments symphony scheduler
  symphony scheduler --no-http --missed-after-ms 60000`

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(SETTINGS_TAKEN, flags, cli)
  const { runScheduler } = await import('../runScheduler.js')
  await runScheduler(settings, cli)
}
