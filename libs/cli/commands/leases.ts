import type { Command } from 'commander'
import { readLeases, type LeaseStatus } from '../../lease/index.js'
import { withTarget } from '../database/target.js'
import { addExamples, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerLeases(program: Command, cli: Cli): void {
  const leases = program.command('leases').description('named leases and their holders').addHelpText('after', HELP)

  addSettings(
    addExamples(leases.command('list'), 'symphony leases list --all').description(
      'list leases with holder, expiry and fencing token',
    ),
    TARGET,
  )
    .addOption(jsonOption())
    .option('--all', 'also released leases')
    .action((flags: GivenFlags) => list(flags, cli))
}

const HELP = `
HELD: no other process can acquire the lease. EXPIRED: the holder did not renew it, and no other process acquired it
since.

Examples:
  symphony leases list --all
  symphony leases list --json | jq '.leases[] | select(.state == "EXPIRED")'`

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const { terminal } = cli
  const settings = await resolveSettings(TARGET, flags, cli)
  const leases = await withTarget(settings, 'leases', (database) =>
    readLeases(database.as('symphony_readonly'), { released: flags['all'] === true, limit: LISTED_MAX }),
  )
  if (flags['json'] === true) return terminal.printJson({ leases })
  if (leases.length === 0) terminal.print('No lease is held.')
  for (const lease of leases) {
    const { bold, dim } = terminal.colors
    terminal.print(`${bold(lease.resource)} ${describe(lease)} ${dim(`(token ${lease.fencingToken})`)}`)
  }
  if (leases.length === LISTED_MAX) terminal.note(`These are the first ${LISTED_MAX} by name; there may be more.`)
}

function describe({ state, owner, acquiredAt, expiresAt }: LeaseStatus): string {
  const end = expiresAt.toISOString()
  if (state === 'RELEASED') return `RELEASED by ${owner} at ${end}`
  if (state === 'EXPIRED') return `EXPIRED at ${end}, was held by ${owner}`
  return `HELD by ${owner} since ${acquiredAt.toISOString()}, at least until ${end}`
}

const LISTED_MAX = 1_000
