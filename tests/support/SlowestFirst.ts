import { basename } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The files that take longest, the longest first. Vitest begins with the largest ones, and at the end all but one of its processes
 * would wait for a small file that kills workers for half a minute.
 */
const SLOWEST = `
  cliDemo relayWorkerKilled deploymentVersions deploymentConcurrency deployment doctorDamage deploymentCli
  embeddedAccounts escalation embeddedStart outboxFuzz outboxPlans railsBook restoreGuard dashboardPages doctor
  platformFleet embeddedProcesses cliProcesses outboxTotals relayWorkerStopped dbConnectionLoss
  relayConnections deploymentRefusals fuzzFindsMutant relayServerKilled inboxWorker temporaryTableAttack
  outboxAppendOnlyTrigger relayHeldRail`
  .trim()
  .split(/\s+/)

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- a sequencer's own, which returns another array
    const sorted = await super.sort(files)
    // Within its project: a process that runs several files is kept only while the next one is of its kind.
    return sorted.toSorted((left, right) =>
      left.project.name === right.project.name ? rankOf(left) - rankOf(right) : 0,
    )
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const rank = SLOWEST.indexOf(basename(moduleId, '.spec.ts'))
  return rank === -1 ? SLOWEST.length : rank
}
