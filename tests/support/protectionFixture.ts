import { randomBytes } from 'node:crypto'
import type { Queryable } from '../../libs/db/index.js'
import {
  enqueue,
  OutboxRelayer,
  type EnqueuedItem,
  type OutboxInstruction,
  type RelayerEvent,
} from '../../libs/outbox/index.js'
import { FieldVault, KeyRing, protectedRails, type MasterKey } from '../../libs/protection/index.js'
import type { Rail, RailAnswer, RailRequest } from '../../libs/rails/index.js'
import type { TestDatabase } from './database.js'
import { recordingRail, type RecordingRail } from './relayRail.js'

export function buildMasterKey(id: string): MasterKey {
  return { id, secret: randomBytes(32) }
}

/** A rail with encrypted fields, its producers and its workers, with the same master keys. */
export class ProtectionFixture {
  readonly db: TestDatabase
  readonly rail: RecordingRail
  readonly vault: FieldVault

  constructor(
    db: TestDatabase,
    keys: readonly MasterKey[],
    declared: Partial<Rail> & { readonly type: string },
    answer?: (request: RailRequest) => RailAnswer | Promise<RailAnswer>,
  ) {
    this.db = db
    this.rail = recordingRail(declared, answer)
    this.vault = new FieldVault(this.rail.rails, new KeyRing(keys, keys.at(-1)?.id ?? ''))
  }

  enqueue(instruction: OutboxInstruction, tx: Queryable = this.db.as('symphony_ingest')): Promise<EnqueuedItem> {
    return enqueue(instruction, { tx, protection: this.vault, schema: this.db.schema })
  }

  /** Runs one round of a worker with these master keys, by default those of the fixture. */
  async relay(keys?: readonly MasterKey[]): Promise<RelayerEvent[]> {
    const { db, rail } = this
    const vault = keys === undefined ? this.vault : new FieldVault(rail.rails, new KeyRing(keys, keys.at(-1)?.id ?? ''))
    const events: RelayerEvent[] = []
    const rails = protectedRails(rail.rails, vault, db.as('symphony_executor'))
    const relayer = new OutboxRelayer(db.database, rails, {}, (event) => events.push(event))
    await relayer.runOnce()
    await relayer.stop()
    return events
  }
}
