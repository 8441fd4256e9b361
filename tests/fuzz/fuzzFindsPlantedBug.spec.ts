import { expect, test } from 'vitest'
import { withTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz } from './fuzz.js'
import { OutboxPlayer } from './OutboxPlayer.js'
import { outboxStep } from './outboxSteps.js'

/** Of a function, the copy in which a text is replaced. A text that is not there once would plant nothing. */
async function plant(db: TestDatabase, functionName: string, find: string, replace: string): Promise<void> {
  const { rows } = await db.queryNoRole<{ definition: string }>(
    'SELECT pg_get_functiondef(to_regproc($1)) AS definition',
    [functionName],
  )
  const { definition } = rows[0]!
  if (definition.split(find).length !== 2) throw new Error(`${functionName}: "${find}" is not there exactly once`)
  await db.queryNoRole(definition.replace(find, () => replace))
}

test('PRIM-POSTGRES-FUZZ-001 a token check that was taken out is found within the short run, with the seed to see it again', async () => {
  await withTestDatabase(async (db) => {
    await plant(db, 'lock_live_outbox_leases', 'p.lease_token = g.lease_token AND ', '')
    const { play } = await OutboxPlayer.open(db)
    const subject = { name: 'outbox', step: outboxStep, play } as const

    const found = await fuzz(subject, { runs: 500, seed: 1 })
    expect(found).toMatchObject({ failed: true, seed: 1 })
    expect(found.difference).toContain(`npm run fuzz -- --only outbox --seed 1 --path ${found.path}`)
    expect(found.steps.length).toBeLessThan(10)

    const again = await fuzz(subject, { runs: 500, seed: found.seed, path: found.path! })
    expect(again.steps).toEqual(found.steps)
  })
}, 300_000)
