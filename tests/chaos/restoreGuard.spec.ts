import { expect, inject, onTestFinished, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { startEmbedded, type EmbeddedServer } from '../../embedded/index.js'
import { claimOutboxBatch, liftDispatchFreeze, readDispatchEpoch, type DispatchEpoch } from '../../libs/outbox/index.js'
import { readBook } from '../../libs/rails/index.js'
import type { Running } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { tableNames } from '../support/fingerprint.js'
import { killServer } from '../support/killServer.js'
import { epochRow } from '../support/outboxEpochs.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { RelayFixture } from '../support/relayFixture.js'
import { MEMORY_IN_FILES, startPrivateServer, testBinaries, type PrivateServer } from '../support/server.js'
import { ask, ServerCopies, Standby } from '../support/standby.js'
import { TcpProxy } from '../support/tcpProxy.js'

/**
 * Promotes, loses and restores servers under a running worker. The rail book is outside every server and must hold each
 * payment once, even if a server lost its outcomes.
 */

const WORKER = 'first'
const WORDS = ['--port', '0', '--lease-seconds', '3', '--rail-timeout-ms', '2000', '--concurrency', '4']

interface GuardFixture {
  readonly server: PrivateServer
  readonly copies: ServerCopies
  readonly proxy: TcpProxy
  readonly fixture: RelayFixture
}

/** Starts a server behind a proxy, which can later forward to another server. */
async function startFixture(): Promise<GuardFixture> {
  const server = await startPrivateServer({ version: inject('postgresVersion') })
  onTestFinished(() => server.remove())
  const copies = new ServerCopies()
  onTestFinished(() => copies.remove())
  const proxy = await TcpProxy.before(server.url)
  onTestFinished(() => proxy.close())
  const url = new URL(server.url)
  url.port = String(proxy.port)
  return { server, copies, proxy, fixture: await RelayFixture.set({ serverUrl: url.href }) }
}

function binaries(): string | undefined {
  const version = inject('postgresVersion')
  return version === 18 ? undefined : testBinaries(version)
}

/** Starts a server on the same data folder again. */
function startAgain({ dataDir, port }: EmbeddedServer): Promise<EmbeddedServer> {
  return startEmbedded({ dataDir, port, binaries: binaries(), settings: MEMORY_IN_FILES })
}

function epochOf({ db }: RelayFixture): Promise<DispatchEpoch | undefined> {
  return readDispatchEpoch(db.as('symphony_auditor')).catch(() => undefined)
}

/** Counts pending items, and the pending items whose outcome is not marked unknown. */
async function marks({ db }: RelayFixture): Promise<unknown> {
  const { rows } = await db.as('symphony_auditor').query(
    `SELECT count(*)::int AS waiting, count(*) FILTER (WHERE NOT outcome_unknown)::int AS unmarked
     FROM ${db.qualify('payment_outbox_pending')}`,
  )
  return rows[0]
}

async function drained(fixture: RelayFixture): Promise<void> {
  await expect.poll(() => fixture.leftCount().catch(() => undefined), POLL_OPTIONS).toBe(0)
}

/** Returns the distinct numbers of times that the rail paid a payment. The result is [1] if all were paid once. */
async function timesPaid({ bookFile }: RelayFixture): Promise<readonly number[]> {
  return [...new Set([...(await readBook(bookFile)).values()].map(({ count }) => count))]
}

/** Enqueues items and stops the worker before it sends any of them. */
async function enqueueAndStall(
  fixture: RelayFixture,
  count: number,
  policies: Parameters<RelayFixture['enqueueMany']>[1],
) {
  const before = fixture.checkpoints.count(WORKER, 'called')
  fixture.checkpoints.close(WORKER, 'called')
  await fixture.enqueueMany(count, policies)
  await expect.poll(() => fixture.checkpoints.count(WORKER, 'called'), POLL_OPTIONS).toBeGreaterThan(before)
}

async function frozenFor(fixture: RelayFixture, worker: Running, cause: string): Promise<void> {
  const found = async () => {
    const epoch = await epochOf(fixture)
    return {
      frozen: epoch?.frozen,
      cause: epoch?.freezeCause,
      by: epoch?.frozenBy,
      marked: epoch?.markedAt instanceof Date,
    }
  }
  await expect.poll(found, POLL_OPTIONS).toEqual({ frozen: true, cause, by: WORKER, marked: true })
  await expect.poll(() => fixture.metricOf(worker, 'dispatch_frozen'), POLL_OPTIONS).toBe(1)
  expect(worker.stderr()).toContain(`"cause":"${cause}"`)
}

async function liftedAndDrained(fixture: RelayFixture, worker: Running): Promise<void> {
  expect(await liftDispatchFreeze(fixture.db.as('symphony_control'), 'the books were compared')).toBe(true)
  await drained(fixture)
  expect(await fixture.metricOf(worker, 'dispatch_frozen')).toBe(0)
  expect(await timesPaid(fixture)).toEqual([1])
  expect(await fixture.auditFindings()).toEqual([])
}

test('dispatch continues after a synchronous failover, and freezes after any loss of commits', async () => {
  const { server, copies, proxy, fixture } = await startFixture()

  // Adds a standby that every commit waits for.
  await server.stop()
  const firstCopy = await copies.of(server.dataDir)
  const first = await server.restart()
  const second = await Standby.of(first.url, firstCopy, binaries())
  const replication = (column: string) => ask(first.url, `SELECT ${column} AS answer FROM pg_stat_replication`)
  await expect.poll(() => replication('state'), POLL_OPTIONS).toBe('streaming')
  await ask(first.url, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
  await ask(first.url, 'SELECT pg_reload_conf() AS answer')
  // If the test fails from here on, clean-up must not wait for a standby that is gone.
  onTestFinished(async () => {
    await ask(first.url, 'ALTER SYSTEM RESET synchronous_standby_names').catch(() => {})
    await ask(first.url, 'SELECT pg_reload_conf() AS answer').catch(() => {})
  })
  await expect.poll(() => replication('sync_state'), POLL_OPTIONS).toBe('sync')

  const worker = await fixture.startWorker(WORKER, { words: WORDS })
  await enqueueAndStall(fixture, 24, ['inquire', 'resend'])
  await expect.poll(async () => (await epochOf(fixture))?.synchronous, POLL_OPTIONS).toBe(true)
  const before = await epochOf(fixture)
  await killServer(first)
  fixture.checkpoints.openAll()
  const promoted = await second.promote()
  proxy.leadTo(promoted.url)
  await drained(fixture)
  expect(await fixture.paidCount()).toBe(24)
  expect(await timesPaid(fixture)).toEqual([1])
  expect(await epochOf(fixture)).toMatchObject({ frozen: false, frozenAt: null, timeline: before!.timeline! + 1 })

  // Loses a primary whose standby is behind. The standby has the payments, but not their outcomes.
  await promoted.stop()
  const secondCopy = await copies.of(promoted.dataDir)
  const primary = await startAgain(promoted)
  const third = await Standby.of(primary.url, secondCopy, binaries())
  await enqueueAndStall(fixture, 24, ['inquire', 'resend', 'hold'])
  await third.catchUp()
  await third.stop()
  fixture.checkpoints.openAll()
  await drained(fixture)
  expect(await fixture.paidCount()).toBe(48)
  await killServer(primary)
  await third.start()
  const survivor = await third.promote()
  proxy.leadTo(survivor.url)
  await frozenFor(fixture, worker, 'NEW_TIMELINE')
  expect(await marks(fixture)).toEqual({ waiting: 24, unmarked: 0 })

  // Enqueues still succeed. Nothing is sent before the freeze is lifted.
  await fixture.enqueueMany(2, ['resend'])
  expect(await marks(fixture)).toEqual({ waiting: 26, unmarked: 2 })
  expect(await fixture.paidCount()).toBe(48)
  await liftedAndDrained(fixture, worker)
  expect(await fixture.paidCount()).toBe(50)
  // Items of the hold rail are held and were not sent again.
  expect(await marks(fixture)).toEqual({ waiting: 8, unmarked: 0 })

  // Restores an older copy, which looks like a restarted server. The epoch file of the worker has a later epoch.
  await enqueueAndStall(fixture, 12, ['inquire', 'resend'])
  const copied = await epochOf(fixture)
  await survivor.stop()
  const thirdCopy = await copies.of(survivor.dataDir)
  const running = await startAgain(survivor)
  fixture.checkpoints.openAll()
  await drained(fixture)
  expect(await fixture.paidCount()).toBe(62)
  // A worker that has not compared the later epoch yet cannot detect its loss.
  await expect.poll(async () => (await epochOf(fixture))?.epochNo, POLL_OPTIONS).toBeGreaterThan(copied!.epochNo)
  await running.stop()
  const settings = { recovery_target_name: 'before_the_mistake' }
  const restored = await startEmbedded({
    dataDir: thirdCopy,
    binaries: binaries(),
    settings: { ...MEMORY_IN_FILES, ...settings },
  })
  proxy.leadTo(restored.url)
  await frozenFor(fixture, worker, 'LOST_COMMITS')
  expect(await marks(fixture)).toEqual({ waiting: 20, unmarked: 0 })
  await liftedAndDrained(fixture, worker)
  expect(await fixture.paidCount()).toBe(62)

  // Copies the rows to another server, like a dump. The first claim detects the other server.
  const elsewhere = await createTestDatabase({ countBranches: false })
  onTestFinished(() => elsewhere.drop())
  await copyRows(fixture.db, elsewhere)
  expect(await claimOutboxBatch(elsewhere.as('symphony_executor'), 100, 'another', 60)).toEqual([])
  expect(await epochRow(elsewhere)).toMatchObject({ frozen: true, freeze_cause: 'ANOTHER_SERVER' })

  // Simulates a point-in-time recovery of a cluster with synchronous replication. It must not count as a failover.
  await fixture.db.as('symphony_owner').query(
    `UPDATE ${fixture.db.qualify('dispatch_epochs')} SET synchronous = true, timeline = timeline - 1,
       server_started_at = server_started_at - interval '1 hour' WHERE beat_at = (
       SELECT max(beat_at) FROM ${fixture.db.qualify('dispatch_epochs')})`,
  )
  await frozenFor(fixture, worker, 'NEW_TIMELINE')
  expect(await epochOf(fixture)).toMatchObject({ freezeReason: expect.stringContaining('recovery_target_name') })
}, 120_000)

/** Copies all rows, like a dump. */
async function copyRows(from: TestDatabase, to: TestDatabase): Promise<void> {
  for (const table of await tableNames(to)) {
    const name = quoteIdentifier(table)
    const { rows: columns } = await to.queryNoRole<{ name: string }>(
      `SELECT quote_ident(attname) AS name FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`,
      [name],
    )
    const list = columns.map((column) => column.name).join(', ')
    const { rows } = await from
      .as('symphony_owner')
      .query<{ rows: string }>(
        `SELECT COALESCE(jsonb_agg(to_jsonb(t)), '[]')::text AS rows FROM ${from.qualify(table)} t`,
      )
    await to.queryNoRole(
      `INSERT INTO ${name} (${list}) SELECT ${list} FROM jsonb_populate_recordset(NULL::${name}, $1) ON CONFLICT DO NOTHING`,
      [rows[0]!.rows],
    )
  }
}
