import { generateKeyPairSync, type KeyObject } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { inject } from 'vitest'
import { call } from '../../libs/db/call.js'
import type { Queryable } from '../../libs/db/index.js'
import {
  databaseSource,
  openLedger,
  readCheckpointLines,
  readCheckpoints,
  sealLedgerBlock,
  verifyLedger,
  writeCheckpoint,
  type AuditReport,
  type Checkpoint,
  type CheckpointReport,
  type Ledger,
  type LedgerReport,
} from '../../libs/ledger/index.js'
import { pauseOutbox, repairExpiredLeases, resumeOutbox } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase, type TestDatabaseOptions } from './database.js'
import { claimOnly, complete, enqueue, enqueueAndClaim, enqueueAndFail, type Enqueued } from './outboxItems.js'
import { approve, createPerson, enqueueHeld, enqueueUnknown, propose, type Person } from './outboxPeople.js'
import { findingsOf, reconcileEntries } from './reconciliation.js'
import { startPrivateServer, type PrivateServer } from './server.js'

type ScenarioFixtureOptions = Pick<TestDatabaseOptions, 'countBranches'>

/**
 * A database on its own server. A block waits for every running transaction of its server, so a shared server would
 * make sealing unpredictable.
 */
export class LedgerFixture {
  readonly #server: PrivateServer
  readonly #ownsServer: boolean
  readonly #people: readonly [Person, Person]
  readonly db: TestDatabase
  /** Folder for keys, checkpoints and exports. */
  readonly folder: string
  readonly keys: { readonly privateKey: KeyObject; readonly publicKey: KeyObject } = generateKeyPairSync('ed25519')

  private constructor(
    server: PrivateServer,
    ownsServer: boolean,
    db: TestDatabase,
    folder: string,
    people: readonly [Person, Person],
  ) {
    this.#server = server
    this.#ownsServer = ownsServer
    this.db = db
    this.folder = folder
    this.#people = people
  }

  static async open(options: ScenarioFixtureOptions = {}): Promise<LedgerFixture> {
    const server = await startPrivateServer({
      version: inject('postgresVersion'),
      settings: { max_prepared_transactions: '5', track_functions: 'all', max_connections: '200', fsync: 'off' },
    })
    try {
      return await LedgerFixture.#on(server, true, options)
    } catch (error) {
      await server.remove()
      throw error
    }
  }

  /** Creates another database on the same server. */
  beside(options: ScenarioFixtureOptions = {}): Promise<LedgerFixture> {
    return LedgerFixture.#on(this.#server, false, options)
  }

  static async #on(
    server: PrivateServer,
    ownsServer: boolean,
    options: ScenarioFixtureOptions,
  ): Promise<LedgerFixture> {
    const db = await createTestDatabase({ serverUrl: server.url, ...options })
    const folder = await mkdtemp(join(tmpdir(), 'symphony-ledger-'))
    return new LedgerFixture(server, ownsServer, db, folder, [
      await createPerson(db, 'ann'),
      await createPerson(db, 'bob'),
    ])
  }

  async close(): Promise<void> {
    await this.db.drop()
    if (this.#ownsServer) await this.#server.remove()
    await rm(this.folder, { recursive: true, force: true })
  }

  file(name: string): string {
    return join(this.folder, name)
  }

  get auditor(): Queryable {
    return this.db.as('symphony_auditor')
  }

  /**
   * Creates every kind of ledger row and event: payments of each outcome, late outcomes, holds, decisions, a redrive, a
   * pause, a reconciliation.
   */
  async fill(): Promise<void> {
    const { db } = this
    const [ann, bob] = this.#people
    const paid = await enqueueAndFail(db, 2)
    await complete(db, await claimOnly(db, paid.railType), {
      state: 'DISPATCHED',
      railReference: 'TX-1',
      latencyMs: 12,
    })
    const failed = await enqueueAndClaim(db, { participantId: paid.participantId, payload: { note: 'grüße\u2028“x”' } })
    await complete(db, failed, {
      state: 'FAILED',
      railCode: 'AC04',
      errorCode: 'CLOSED',
      errorMessage: 'Konto geschlossen',
    })
    await approve(bob, await propose(ann, failed.outboxId, 'REDRIVE'))
    const lost = await enqueueAndClaim(db)
    await db.expireLease(lost.outboxId)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair')
    const unknown = await enqueueUnknown(db)
    await approve(bob, await propose(ann, unknown.outboxId, 'DISPATCHED'))
    await enqueueHeld(db, ann)
    await enqueue(db, { participantId: paid.participantId })
    await pauseOutbox(ann.control, 'rail', paid.railType, 'the bank is closed')
    await resumeOutbox(ann.control, 'rail', paid.railType, 'the bank is open')
    await this.#reconcile(paid)
  }

  /** Creates a run with two findings, an item paid twice and an unknown entry, and closes the first finding. */
  async #reconcile({ outboxId, railType }: Enqueued): Promise<void> {
    const { control } = this.#people[0]
    const entries = [{ outboxId }, { outboxId, amount: '10.51' }, { reference: 'Salary' }]
    const { runId } = await reconcileEntries(this.db, railType, entries, { role: control, keepUnknown: true })
    const [first] = await findingsOf(this.db, runId)
    await call(control, 'close_reconciliation_finding', [first!.findingId, 'the bank returned one'])
  }

  /** Seals blocks of at most `rowsMax` rows until no row is left. Returns their sizes. */
  async seal(rowsMax = 100): Promise<number[]> {
    const sizes: number[] = []
    for (;;) {
      const sealed = await sealLedgerBlock(this.db.as('symphony_executor'), rowsMax)
      if (sealed === undefined) return sizes
      sizes.push(sealed.rowCount)
    }
  }

  /** Seals all rows, and waits for short transactions such as autovacuum's. */
  async sealAll(rowsMax = 100): Promise<void> {
    const deadline = Date.now() + 60_000
    for (;;) {
      await this.seal(rowsMax)
      const { openRows } = await this.verify()
      if (openRows === 0) return
      if (Date.now() > deadline) throw new Error(`${openRows} rows are still not sealed`)
      await delay(5)
    }
  }

  verify(checkpoints: readonly Checkpoint[] = [], role: Queryable = this.auditor): Promise<LedgerReport> {
    return verifyLedger(databaseSource(role), { checkpoints })
  }

  checkpoint(file = this.file('checkpoints.ndjson'), role: Queryable = this.auditor): Promise<CheckpointReport> {
    return writeCheckpoint(databaseSource(role), file, this.keys.privateKey)
  }

  async checkpoints(file = this.file('checkpoints.ndjson')): Promise<Checkpoint[]> {
    return readCheckpoints(await readCheckpointLines(file), this.keys.publicKey)
  }
}

/** Audits the ledger of a test database as an administrator would. */
export async function auditLedger(
  { url, schema }: Pick<TestDatabase, 'url' | 'schema'>,
  options: Parameters<Ledger['audit']>[0] = {},
): Promise<AuditReport> {
  const ledger = await openLedger({ url, schema })
  try {
    return await ledger.audit(options)
  } finally {
    await ledger.close()
  }
}
