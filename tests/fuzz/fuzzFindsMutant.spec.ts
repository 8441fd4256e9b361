import { expect, test } from 'vitest'
import { withTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz, type FuzzReport, type FuzzSettings } from './fuzz.js'
import { InboxRunner } from './InboxRunner.js'
import { inboxStep } from './inboxSteps.js'
import { LeaseRunner } from './LeaseRunner.js'
import { leaseStep } from './leaseSteps.js'
import { OutboxRunner } from './OutboxRunner.js'
import { outboxStep } from './outboxSteps.js'
import { SchedulerRunner } from './SchedulerRunner.js'
import { schedulerStep } from './schedulerSteps.js'

/** Mutants, one per primitive. Each removes the check of the lease token. */
const MUTANTS = [
  {
    name: 'outbox',
    functionName: 'lock_live_outbox_leases',
    check: 'p.lease_token = g.lease_token AND ',
    open: async (db: TestDatabase) => {
      const { run } = await OutboxRunner.open(db)
      return (settings: FuzzSettings) => fuzz({ name: 'outbox', step: outboxStep, run }, settings)
    },
  },
  {
    name: 'inbox',
    functionName: 'lock_live_inbox_claims',
    check: 'm.fence = g.fence AND ',
    open: async (db: TestDatabase) => {
      const { run } = await InboxRunner.open(db)
      return (settings: FuzzSettings) => fuzz({ name: 'inbox', step: inboxStep, run }, settings)
    },
  },
  {
    name: 'scheduler',
    functionName: 'end_task_claims',
    check: 'AND t.lease_token = g.lease_token ',
    open: async (db: TestDatabase) => {
      const { run } = await SchedulerRunner.open(db)
      return (settings: FuzzSettings) => fuzz({ name: 'scheduler', step: schedulerStep, run }, settings)
    },
  },
  {
    name: 'lease',
    functionName: 'lock_live_lease',
    check: 'v_lease.lease_id = p_lease_id AND ',
    open: async (db: TestDatabase) => {
      const { run } = await LeaseRunner.open(db)
      return (settings: FuzzSettings) => fuzz({ name: 'lease', step: leaseStep, run }, settings)
    },
  },
] as const

test.for(MUTANTS.map((mutant) => [mutant.name, mutant] as const))(
  'PRIM-POSTGRES-FUZZ-001 the fuzz finds a removed token check in %s; the seed reproduces it',
  { timeout: 300_000 },
  async ([name, { functionName, check, open }]) => {
    await withTestDatabase(
      async (db) => {
        await removeText(db, functionName, check)
        const run: (settings: FuzzSettings) => Promise<FuzzReport> = await open(db)

        const found = await run({ runs: 100, seed: 1 })
        expect(found).toMatchObject({ failed: true, seed: 1 })
        expect(found.difference).toContain(`npm run fuzz -- --only ${name} --seed 1 --path ${found.path}`)
        expect(found.steps.length).toBeLessThan(12)

        const again = await run({ runs: 100, seed: found.seed, path: found.path! })
        expect(again.steps).toEqual(found.steps)
      },
      { countBranches: false },
    )
  },
)

/** Removes a check from a function. Throws unless the check occurs exactly once. */
async function removeText(db: TestDatabase, functionName: string, check: string): Promise<void> {
  const { rows } = await db.queryNoRole<{ definition: string }>(
    'SELECT pg_get_functiondef(to_regproc($1)) AS definition',
    [functionName],
  )
  const { definition } = rows[0]!
  if (definition.split(check).length !== 2) throw new Error(`${functionName}: "${check}" must occur exactly once`)
  await db.queryNoRole(definition.replace(check, () => ''))
}
