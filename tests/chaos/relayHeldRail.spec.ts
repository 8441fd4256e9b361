import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { enqueuePaymentOutboxBatch, OutboxRelayer } from '../../libs/outbox/index.js'
import { LeaseRepairWorker } from '../../libs/repair/index.js'
import { useTestDatabase } from '../support/database.js'
import { KillableWorker } from '../support/killableWorker.js'
import { buildInstruction } from '../support/outboxItems.js'
import { createPerson, approve, propose } from '../support/outboxPeople.js'
import { writeRailsFile } from '../support/railsFile.js'
import { recordingRail } from '../support/relayRail.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'
import { auditLedger } from '../support/ledgerFixture.js'

const PAYMENTS = 100
const WORKERS = 2
const CALLS_EACH = 25

const db = await useTestDatabase({ countBranches: false })

test(
  `a hold rail gets one call for each of ${PAYMENTS} payments although workers are killed`,
  { timeout: 180_000 },
  async () => {
    const folder = await makeTestFolder()
    onTestFinished(() => removeTestFolder(folder))
    const book = join(folder, 'calls')
    await writeFile(book, '')
    // The rail records each call durably before the call hangs for ever.
    const railsFile = await writeRailsFile(
      folder,
      `type: 'HELD', onUnknown: 'hold', concurrency: ${CALLS_EACH}, timeoutMs: 600_000,
       dispatch: async ({ reference }) => {
         const { appendFileSync } = await import('node:fs')
         appendFileSync(${JSON.stringify(book)}, reference + '\\n')
         return new Promise(() => {})
       }`,
    )
    const called = async () => (await readFile(book, 'utf8')).split('\n').filter(Boolean)
    const { url } = await db.createLogin('worker', { roles: ['symphony_executor', 'symphony_readonly'] })
    const instructions = Array.from({ length: PAYMENTS }, () => buildInstruction({ railType: 'HELD' }))
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
    const outboxIds = items.map(({ outboxId }) => outboxId).toSorted()

    // The second fleet takes over the leases of the first fleet before it claims other items.
    for (const fleet of [1, 2]) {
      const workers = Array.from({ length: WORKERS }, (_, index) => {
        const workerId = `fleet-${fleet}-worker-${index}`
        const words = ['--concurrency', String(CALLS_EACH), '--batch-size', String(CALLS_EACH)]
        return new KillableWorker(db, { url, workerId, railsFile, words })
      })
      onTestFinished(() => workers.forEach(({ child }) => void child.kill('SIGKILL')))
      await Promise.all(workers.map((worker) => worker.atWork()))
      const madeByNow = fleet * WORKERS * CALLS_EACH
      await expect.poll(async () => (await called()).length, { timeout: 60_000 }).toBe(madeByNow)
      await Promise.all(workers.map((worker) => worker.kill()))
      const leased = await Promise.all(workers.map((worker) => worker.outlive()))
      expect(leased).toEqual(workers.map(() => CALLS_EACH))
    }
    // Lease repair handles the leases of the second fleet.
    await new LeaseRepairWorker(db.as('symphony_executor')).runOnce()

    expect((await called()).toSorted()).toEqual(outboxIds)
    const { rows: states } = await db.queryNoRole(
      `SELECT state, hold_reason, outcome_unknown, last_attempt_no, last_attempt_state::text, count(*)::int AS items
       FROM outbox_operational_status GROUP BY 1, 2, 3, 4, 5`,
    )
    expect(states).toEqual([
      {
        state: 'HELD',
        hold_reason: 'OUTCOME_UNKNOWN',
        outcome_unknown: true,
        last_attempt_no: 1,
        last_attempt_state: 'ZOMBIE_REQUEUE',
        items: PAYMENTS,
      },
    ])
    const { rows: foundBy } = await db.queryNoRole(
      `SELECT held_by LIKE 'fleet-2-%' AS taken_over, count(*)::int AS items FROM payment_outbox_pending GROUP BY 1 ORDER BY 1`,
    )
    expect(foundBy).toEqual([
      { taken_over: false, items: PAYMENTS / 2 },
      { taken_over: true, items: PAYMENTS / 2 },
    ])
    const again = recordingRail({ type: 'HELD', onUnknown: 'hold' })
    expect(await new OutboxRelayer(db.database, again.rails).runOnce()).toMatchObject({ claimed: 0 })
    expect(again.calls).toEqual([])

    const [maker, checker] = await Promise.all([createPerson(db, 'maker'), createPerson(db, 'checker')])
    await Promise.all(
      outboxIds.map(async (outboxId, index) => {
        const proposalId = await propose(maker, outboxId, index % 2 === 0 ? 'DISPATCHED' : 'FAILED')
        await expect(approve(maker, proposalId)).rejects.toMatchObject({ sqlstate: 'P7007' })
        await approve(checker, proposalId)
      }),
    )
    const { ok, invariants, counts } = await auditLedger(db, { drained: true })
    expect({ ok, broken: invariants.filter((one) => !one.ok) }).toEqual({ ok: true, broken: [] })
    expect(counts).toMatchObject({ pending: 0n, dispatched: BigInt(PAYMENTS / 2), failed: BigInt(PAYMENTS / 2) })
  },
)
