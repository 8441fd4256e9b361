import type { Logger } from 'pino'
import type { Database } from '../../db/index.js'
import { LedgerSealer, LedgerVerifier } from '../../ledger/index.js'
import {
  logRelayerEvents,
  logRepairEvents,
  logSealerEvents,
  logVerifierEvents,
  type Metrics,
} from '../../observability/index.js'
import { OutboxRelayer } from '../../outbox/index.js'
import type { LoadedRail } from '../../rails/index.js'
import { LeaseRepairWorker } from '../../repair/index.js'
import { guardListener, settleWithin } from '../../worker/index.js'
import type { RelaySettings } from '../settings/settings.js'
import { EpochFile } from './EpochFile.js'
import type { RefusalWatch } from './lifecycle.js'

interface WorkerServicesOptions {
  readonly database: Database
  readonly rails: ReadonlyMap<string, LoadedRail>
  readonly settings: Omit<RelaySettings, 'rails'>
  readonly log: Logger
  /** Absent where nobody scrapes. */
  readonly metrics: Metrics | undefined
  readonly watch: RefusalWatch
}

/** A relayer, lease repair, and sealing and verification of the ledger over one database: the common part of `start` and `worker`. */
export class WorkerServices {
  readonly workerId: string
  readonly #rails: ReadonlyMap<string, LoadedRail>
  readonly #epochFile: EpochFile | undefined
  readonly #relayer: OutboxRelayer
  readonly #repair: LeaseRepairWorker
  readonly #sealer: LedgerSealer
  /** Undefined where it is switched off. */
  readonly #verifier: LedgerVerifier | undefined

  constructor({ database, rails, settings, log, metrics, watch }: WorkerServicesOptions) {
    const { workerId, epochFile, leaseSeconds, batchSize, concurrency, pollMs, listen, renewLeases, shutdownMs } =
      settings
    this.#rails = rails
    metrics?.outbox.declareRails(rails.keys())
    this.#epochFile = epochFile === undefined ? undefined : new EpochFile(epochFile)
    this.#relayer = new OutboxRelayer(
      database,
      rails,
      {
        leaseSeconds,
        batchSize,
        concurrency,
        pollMs,
        listen,
        renewLeases,
        shutdownMs,
        ...(workerId === undefined ? {} : { workerId }),
        ...(this.#epochFile === undefined ? {} : { epochStore: this.#epochFile }),
      },
      guardListener(metrics?.outbox.onRelayerEvent, logRelayerEvents(log), watch.onEvent),
    )
    this.workerId = this.#relayer.workerId
    this.#repair = new LeaseRepairWorker(
      database.as('symphony_executor'),
      { intervalMs: settings.repairIntervalMs, batchSize: settings.repairBatchSize, workerId: this.workerId },
      guardListener(metrics?.outbox.onRepairEvent, logRepairEvents(log), watch.onEvent),
    )
    this.#sealer = new LedgerSealer(
      database.as('symphony_executor'),
      { intervalMs: settings.sealIntervalMs },
      guardListener(logSealerEvents(log), watch.onEvent),
    )
    const { verifyRowsPerSecond: rowsPerSecond } = settings
    this.#verifier =
      rowsPerSecond === 0
        ? undefined
        : new LedgerVerifier(
            database.as('symphony_executor'),
            { rowsPerSecond },
            guardListener(logVerifierEvents(log), watch.onEvent),
          )
  }

  async start(): Promise<void> {
    // An unreadable epoch file is reported before the first claim.
    await this.#epochFile?.load()
    await this.#relayer.start()
    await this.#repair.start()
    await this.#sealer.start()
    await this.#verifier?.start()
  }

  /** Gives leases back, waits for calls within the bound that was set, and closes the rails. Safe before `start`. */
  async stop(): Promise<void> {
    await Promise.all([this.#relayer.stop(), this.#repair.stop(), this.#sealer.stop(), this.#verifier?.stop()])
    const closing = [...this.#rails.values()].map((rail) => rail.close())
    // An adapter that cannot close keeps nobody from stopping.
    await settleWithin(Promise.allSettled(closing), RAILS_CLOSE_MS)
  }
}

const RAILS_CLOSE_MS = 1_000
