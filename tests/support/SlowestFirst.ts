import { basename } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/**
 * The slowest spec files, slowest first. Vitest would start with the largest files, and a small but slow file would
 * then run alone at the end.
 */
const SLOWEST = `
  scorecard relayOutcomes cliDemo embeddedProcesses cliProcesses embeddedStart platformFleet relayWorkerKilled
  restoreGuard relayWorkerStopped embeddedAccounts deploymentCli dbConnectionLoss relayConnections railsBook
  relayHeldRail relayOrdered docsExamples deploymentSnapshot package
  dashboardOperator dashboardPages dashboardLive dashboardHostileText dashboardNewcomer
  deploymentConcurrency deploymentVersions outboxPlans topicExactlyOnce hostileRails deployment doctor cliChecks
  outboxFuzz ledgerEvidence cliDatabaseFaults exploration
  outboxPrivileges outboxFullTrail outboxStrictInput temporaryTableAttack ledgerSessions
  outboxConcurrencyIdempotencyProof outboxTotals outboxCompleteConcurrencyProof hostileStatements`
  .trim()
  .split(/\s+/)

export class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- sort() of the base sequencer, which returns a new array
    const sorted = await super.sort(files)
    // Sorts only within a project: a process is reused for the next file only if that file is of the same project.
    return sorted.toSorted((left, right) =>
      left.project.name === right.project.name ? rankOf(left) - rankOf(right) : 0,
    )
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const rank = SLOWEST.indexOf(basename(moduleId, '.spec.ts'))
  return rank === -1 ? SLOWEST.length : rank
}
