import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { enqueuePaymentOutbox } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture } from '../support/relayFixture.js'
import { buildPaymentOn } from '../scorecard/payments.js'
import { makeRelease, type OtherRelease } from '../scorecard/nextRelease.js'

/** Migration of a later release. See schema/migrations/README.md. */
const MIGRATION = `ALTER TABLE payment_outbox_pending ADD COLUMN note text;
ALTER TABLE payment_outbox_attempts ADD COLUMN note text;
`

/** Timeout that is long enough to start and stop processes on a busy machine. */
const SLOWLY = { timeout: 60_000 }

let db: TestDatabase
let folder: string
let migrated: OtherRelease
const target = () => ({ url: db.url, schema: db.schema })

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'symphony-migration-'))
  migrated = await makeRelease(folder, inject('serverUrl'), async (schema) => {
    await mkdir(join(schema, 'migrations'), { recursive: true })
    await writeFile(join(schema, 'migrations', '0001_pending_note.sql'), MIGRATION)
  })
  db = await createTestDatabase({ countBranches: false })
})

afterAll(async () => {
  await db.drop()
  await rm(folder, { recursive: true })
})

const enqueueOne = () => enqueuePaymentOutbox(db.as('symphony_ingest'), buildPaymentOn('resend'))
const dispatchedBy = async (fixture: RelayFixture) => {
  const { rows } = await fixture.db.queryNoRole('SELECT DISTINCT worker_id FROM payment_outbox_attempts ORDER BY 1')
  return rows.map(({ worker_id }) => worker_id)
}
const notes = async () => (await db.queryNoRole('SELECT note FROM payment_outbox_pending')).rows

test('a dry run of a later release prints its migration and functions, but no table files', async () => {
  const { sql } = await migrated.deploy({ ...target(), dryRun: true })
  expect(sql).toContain('-- schema/migrations/0001_pending_note.sql')
  expect(sql).toContain('-- schema/functions/outbox/claim.sql')
  expect(sql).not.toContain('-- schema/v1/011_payment_outbox.sql')
})

test('a migration waits for an open transaction without blocking enqueues, and is applied once', async () => {
  await enqueueOne()
  const holder = await db.connect('symphony_ingest')
  await holder.query('BEGIN')
  await enqueuePaymentOutbox(holder, buildPaymentOn('resend'))
  let ended = false
  const deployed = migrated.deploy(target()).finally(() => (ended = true))
  // Each enqueue waits at most until the deployment gives up one lock request.
  for (let round = 0; round < 20; round += 1) await enqueueOne()
  expect(ended).toBe(false)
  await holder.query('COMMIT')
  expect(await deployed).toMatchObject({ outcome: 'deployed' })
  expect(await notes()).toHaveLength(22)
  expect(await migrated.deploy(target())).toMatchObject({ outcome: 'unchanged' })
  await enqueueOne()
})

test('a worker of the older release continues during and after a migration under load', SLOWLY, async () => {
  const fixture = await RelayFixture.set()
  const { url, schema } = fixture.db
  const older = await fixture.startWorker('older')
  const enqueueSome = () => fixture.enqueueMany(20, ['inquire', 'resend'])
  const load = new AbortController()
  await enqueueSome()
  const deployed = migrated.deploy({ url, schema }).finally(() => load.abort())
  while (!load.signal.aborted) await enqueueSome()
  expect(await deployed).toMatchObject({ outcome: 'deployed' })

  await enqueueSome()
  await expect.poll(() => fixture.leftCount(), POLL_OPTIONS).toBe(0)
  expect(await dispatchedBy(fixture)).toEqual(['older'])

  await fixture.startWorker('later', { dist: migrated.dist })
  older.child.kill('SIGTERM')
  expect(await older.ended).toMatchObject({ exitCode: 0 })
  await enqueueSome()
  await expect.poll(() => fixture.leftCount(), POLL_OPTIONS).toBe(0)
  expect(await dispatchedBy(fixture)).toEqual(['later', 'older'])
  expect(await fixture.auditFindings()).toEqual([])
})

test('an older release cannot be deployed after the migration (DEPLOYMENT_NEWER_DATABASE)', async () => {
  await expect(deploy(target())).rejects.toMatchObject({ code: 'DEPLOYMENT_NEWER_DATABASE' })
})

test('an applied migration whose file was edited is refused, even with reapply', async () => {
  await writeFile(join(folder, 'schema', 'migrations', '0001_pending_note.sql'), `-- edited\n${MIGRATION}`)
  for (const reapply of [false, true])
    await expect(migrated.deploy({ ...target(), reapply })).rejects.toMatchObject({
      code: 'DEPLOYMENT_TABLES_DIFFER',
      message: expect.stringContaining('migrations/0001_pending_note.sql'),
    })
})
