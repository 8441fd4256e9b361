import type { Command } from 'commander'
import { readLeases, type LeaseStatus } from '../../lease/index.js'
import { withTarget } from '../database/target.js'
import { addExamples, jsonOption } from '../settings/options.js'
import { addSettings, resolveSettings, type GivenFlags } from '../settings/resolveSettings.js'
import { TARGET } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'

/** `symphony leases`: who holds what. It only looks: a lease is ended by its holder or by time. */
export function registerLeases(program: Command, cli: Cli): void {
  const leases = program.command('leases').description('who holds which resource').addHelpText('after', HELP)

  addSettings(
    addExamples(leases.command('list'), 'symphony leases list --all').description(
      'who holds what, until when, and with which fencing token',
    ),
    TARGET,
  )
    .addOption(jsonOption())
    .option('--all', 'also what was released')
    .action((flags: GivenFlags) => list(flags, cli))
}

const HELP = `
HELD: nobody else can have it. EXPIRED: its holder did not come back, and nobody has asked for it since.

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
  if (leases.length === 0) terminal.print('Nothing is held.')
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
