import { readFile } from 'node:fs/promises'
import { InvalidArgumentError, requireKnownOptions } from '../core/index.js'
import {
  beginSnapshot,
  DATABASE_OPTIONS,
  openDatabase,
  type Database,
  type DatabaseOptions,
  type Queryable,
} from '../db/index.js'
import { auditDatabase, auditExport, type AuditOptions, type AuditReport } from './auditor.js'
import { readCheckpoints, readPrivateKey, readPublicKey, type Checkpoint } from './checkpoints.js'
import { readLimitEvidence, readSettings, recordLedgerVerification } from './db.js'
import { readConformance, writeEvidence } from './evidence.js'
import { readRuns } from './evidenceRuns.js'
import { exportLedger, type ExportManifest } from './exportLedger.js'
import { openExport, type OpenedExport } from './exportSource.js'
import { databaseSource } from './LedgerSource.js'
import { verifyLedger, type LedgerReport } from './verifyLedger.js'
import { requiredCheckpointLines, writeCheckpoint, type CheckpointReport } from './writeCheckpoint.js'

/** Signed checkpoints to compare the ledger with. */
export interface CheckpointFiles {
  /** Checkpoint file that `checkpoint` writes. @default the checkpoints in the export */
  readonly file?: string
  /** File of the public key, in PEM. */
  readonly publicKey: string
}

interface ReadOptions {
  /**
   * Checkpoints to compare the ledger with. Without them, verification does not notice a superuser who rewrote the
   * whole ledger. @default none
   */
  readonly checkpoints?: CheckpointFiles
  /** Called after every 500 rows. */
  readonly onProgress?: (done: number, total: number) => void
}

/**
 * Opens the ledger of a database, or an export of one. The login needs `symphony_auditor`. Connects to a database at
 * the first call. Compares an export with its manifest at once.
 */
export async function openLedger(options: DatabaseOptions | { readonly exportFolder: string }): Promise<Ledger> {
  requireKnownOptions(options, ['exportFolder', ...DATABASE_OPTIONS])
  return new Ledger('exportFolder' in options ? await openExport(options.exportFolder) : new LedgerDatabase(options))
}

/** Reads the ledger. Its only write is the record of a verification. Close it after use. */
export class Ledger implements AsyncDisposable {
  readonly #origin: LedgerDatabase | OpenedExport

  constructor(origin: LedgerDatabase | OpenedExport) {
    this.#origin = origin
  }

  /** Recomputes every hash, row by row and block by block. */
  async verify({ checkpoints, ...options }: ReadOptions = {}): Promise<LedgerReport> {
    const signed = await this.#readSigned(checkpoints)
    const origin = this.#origin
    if (!(origin instanceof LedgerDatabase)) return verifyLedger(origin.source, { ...options, ...signed })
    return origin.read((auditor) => verifyLedger(databaseSource(auditor), { ...options, ...signed }))
  }

  /**
   * Verifies the ledger and checks the invariants I1 to I11. An export has no queue, so I1, I8 and I10 are not checked.
   * I3, I4 and I5 need `effects`, the rail book.
   */
  async audit({ checkpoints, ...options }: Omit<AuditOptions, 'checkpoints'> & ReadOptions = {}): Promise<AuditReport> {
    const origin = this.#origin
    const signed = await this.#readSigned(checkpoints)
    if (origin instanceof LedgerDatabase) {
      return origin.read((auditor) => auditDatabase(auditor, { ...options, ...signed }))
    }
    if (options.drained === true) {
      throw new InvalidArgumentError('drained', 'expected a database: an export has no queue')
    }
    return auditExport(origin.source, { ...options, ...signed })
  }

  /** Records the result of an audit in the database. Every process derives its alert from this record. */
  async record({ chain }: AuditReport): Promise<void> {
    const { identities, attempts, events, breakCount } = chain
    await recordLedgerVerification(this.#database('record').auditor, {
      rowsChecked: identities + attempts + events,
      breakCount,
    })
  }

  /**
   * Verifies the blocks since the last checkpoint and signs the newest block. Refuses a ledger that contradicts the
   * last checkpoint. Keep the checkpoints and the private key where no administrator of the database can write.
   */
  async checkpoint({
    file,
    privateKey,
    onProgress,
  }: {
    /** File of checkpoints; the call appends one line. */
    readonly file: string
    /** File of the private key, which only its owner can read. */
    readonly privateKey: string
    readonly onProgress?: ReadOptions['onProgress']
  }): Promise<CheckpointReport> {
    const key = await readPrivateKey(privateKey)
    const options = onProgress === undefined ? {} : { onProgress }
    return this.#database('checkpoint').read((auditor) => writeCheckpoint(databaseSource(auditor), file, key, options))
  }

  /** Writes the whole ledger as text, including payloads, to a new folder. */
  async export({
    folder,
    checkpoints,
    onProgress,
  }: {
    readonly folder: string
    /** File of checkpoints, copied into the folder. @default none */
    readonly checkpoints?: string
    readonly onProgress?: ReadOptions['onProgress']
  }): Promise<ExportManifest> {
    const database = this.#database('export')
    if (database.isPooled) {
      throw new InvalidArgumentError(
        'pooler',
        'expected none: an export reads one snapshot, which a pooler cannot keep',
      )
    }
    const text = checkpoints === undefined ? {} : { checkpoints: await readCheckpointText(checkpoints) }
    const progress = onProgress === undefined ? {} : { onProgress }
    return database.read((auditor) => exportLedger(databaseSource(auditor), folder, { ...text, ...progress }))
  }

  /**
   * Writes an evidence bundle to a new folder: deployed objects, settings, limits, and the results of doctor and audit.
   * The same state of the database gives the same bytes. Refuses (`EVIDENCE_REFUSED`) if doctor or audit reports a
   * problem.
   */
  async writeEvidence({
    folder,
    privateKey,
    checkpoints,
    onProgress,
  }: ReadOptions & {
    readonly folder: string
    /** File of the private key that signs the manifest. @default unsigned */
    readonly privateKey?: string
  }): Promise<{ readonly files: number; readonly sha256: string }> {
    const database = this.#database('writeEvidence')
    const key = privateKey === undefined ? undefined : await readPrivateKey(privateKey)
    const signed = await this.#readSigned(checkpoints)
    const conformance = await readConformance()
    // Imports the installer only here: workers load this module for the sealer and do not need the installer.
    const { describeDeployment, doctor } = await import('../deployment/index.js')
    const diagnosis = await doctor({ ...database.target, full: true })
    const { catalog, history } = await describeDeployment(database.target)
    const texts = checkpoints?.file === undefined ? undefined : await readCheckpointTexts(checkpoints.file, checkpoints)
    return database.read(async (auditor) => {
      const audit = await auditDatabase(auditor, { ...signed, ...(onProgress === undefined ? {} : { onProgress }) })
      const parts = {
        catalog,
        deployments: history,
        settings: await readSettings(auditor),
        limits: await readLimitEvidence(auditor),
        doctor: diagnosis,
        audit,
        runs: await readRuns(auditor),
        conformance,
        checkpoints: texts,
      }
      return writeEvidence(folder, parts, databaseSource(auditor), key)
    })
  }

  async close(): Promise<void> {
    if (this.#origin instanceof LedgerDatabase) await this.#origin.close()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  #database(verb: string): LedgerDatabase {
    if (this.#origin instanceof LedgerDatabase) return this.#origin
    throw new InvalidArgumentError('exportFolder', `expected the url of a database for ${verb}`)
  }

  async #readSigned(given: CheckpointFiles | undefined): Promise<{ readonly checkpoints?: readonly Checkpoint[] }> {
    if (given === undefined) return {}
    const { file, publicKey } = given
    const exported = 'source' in this.#origin ? this.#origin.checkpoints : undefined
    if (file === undefined && exported === undefined) {
      throw new InvalidArgumentError('checkpoints.file', 'expected the file of checkpoints that publicKey verifies')
    }
    const lines = file === undefined ? (exported ?? '').split('\n').slice(0, -1) : await requiredCheckpointLines(file)
    return { checkpoints: readCheckpoints(lines, await readPublicKey(publicKey)) }
  }
}

async function readCheckpointText(file: string): Promise<string> {
  return (await requiredCheckpointLines(file)).map((line) => `${line}\n`).join('')
}

async function readCheckpointTexts(file: string, { publicKey }: CheckpointFiles) {
  return { text: await readCheckpointText(file), publicKeyPem: await readFile(publicKey, 'utf8') }
}

/**
 * Database of a ledger, with long timeouts, because statements read millions of rows. They block no other transaction.
 */
class LedgerDatabase {
  readonly target: Pick<DatabaseOptions, 'url' | 'schema' | 'tls'>
  readonly isPooled: boolean
  readonly #database: Database

  constructor(options: DatabaseOptions) {
    const { url, schema, tls } = options
    this.target = { url, ...(schema === undefined ? {} : { schema }), ...(tls === undefined ? {} : { tls }) }
    this.isPooled = options.pooler === 'transaction'
    this.#database = openDatabase({
      applicationName: 'symphony ledger',
      statementTimeoutMs: TIMEOUT_MS,
      idleInTransactionTimeoutMs: TIMEOUT_MS,
      ...options,
    })
  }

  get auditor() {
    return this.#database.as('symphony_auditor')
  }

  /**
   * Runs the body in one snapshot. Behind a transaction pooler each statement has its own snapshot. Verification still
   * works, because verified rows never change.
   */
  read<T>(body: (auditor: Queryable) => Promise<T>): Promise<T> {
    if (this.isPooled) return body(this.auditor)
    return this.auditor.transaction(async (tx) => {
      await beginSnapshot(tx)
      return body(tx)
    })
  }

  close(): Promise<void> {
    return this.#database.close()
  }
}

const TIMEOUT_MS = 1_800_000
