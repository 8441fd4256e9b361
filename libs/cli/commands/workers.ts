import type { Command } from 'commander'
import { readWorkerReports, type WorkerReport } from '../../outbox/index.js'
import type { Cli } from '../Cli.js'
import { jsonOption } from '../commonOptions.js'
import { addExamples } from '../examples.js'
import { withTarget } from '../openTarget.js'
import { addSettings, resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'

/** `symphony workers`: relayers that run, or were killed. */
export function registerWorkers(program: Command, cli: Cli): void {
  const workers = addSettings(
    program.command('workers').description('relayers that reported within a day and did not stop, with their leases'),
    TARGET,
  )
    .addOption(jsonOption())
    .action((flags: GivenFlags) => run(flags, cli))
  addExamples(workers, 'symphony workers', "symphony workers --json | jq '.workers[] | select(.deadSince)'")
}

async function run(flags: GivenFlags, cli: Cli): Promise<void> {
  const settings = await resolveSettings(TARGET, flags, cli)
  const reports = await withTarget(settings, 'workers', (database) =>
    readWorkerReports(database.as('symphony_readonly')),
  )
  const workers = reports.map((report) => Object.assign(report, { deadSince: report.alive ? null : report.lastSeenAt }))
  if (flags['json'] === true) return cli.terminal.printJson({ workers })
  if (workers.length === 0) cli.terminal.print('No worker.')
  for (const worker of workers) print(worker, cli)
}

function print(worker: WorkerReport & { readonly deadSince: string | null }, { terminal }: Cli): void {
  const { bold, dim, green, red } = terminal.colors
  const { workerId, deadSince, startedAt, leases, detail } = worker
  const state = deadSince === null ? green('alive') : red(`dead since ${deadSince}`)
  terminal.print(`${bold(workerId)} ${state}, ${leases} ${leases === 1 ? 'lease' : 'leases'}, started ${startedAt}`)
  const { unknownCode, clockJump } = detail
  if (unknownCode !== undefined) terminal.print(dim(`  last unknown code: ${JSON.stringify(unknownCode)}`))
  if (clockJump !== undefined) terminal.print(dim(`  last clock jump: ${JSON.stringify(clockJump)}`))
}
