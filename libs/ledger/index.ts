/**
 * The ledger, held against itself and against the rail's book. Reads as symphony_auditor and changes nothing; hashes are
 * recomputed here, from exported text, because who could change a row could change the database's functions too.
 *
 * Rows are chained per payment, and sealed in blocks by `LedgerSealer` behind whoever writes them; heads of blocks are signed and
 * kept outside the database. A crash of the sealer leaves rows that no block covers yet, which the next run covers.
 */
export { audit, auditExport } from './auditor.js'
export type { AuditOptions, AuditReport } from './auditor.js'
export type { RailEffect } from './bookComparison.js'
export { describeBreak } from './breaks.js'
export type { LedgerBreak } from './breaks.js'
export { ATTEMPT_FIELDS, canonicalHash, numberOf } from './chain.js'
export type { LedgerRow } from './chain.js'
export { checkEvidence } from './checkEvidence.js'
export type { EvidenceCheck } from './checkEvidence.js'
export { createCheckpointKeys, readPrivateKey, readPublicKey } from './checkpointKeys.js'
export { CheckpointError, readCheckpoints } from './checkpoints.js'
export type { Checkpoint } from './checkpoints.js'
export { databaseSource } from './databaseSource.js'
export { beginSnapshot, readSealingStatus, readSettings, recordLedgerVerification, sealLedgerBlock } from './db.js'
export type { LedgerCounts, SealingBlocker, SealingStatus } from './db.js'
export { EvidenceError, writeEvidence } from './evidence.js'
export type { EvidenceParts } from './evidence.js'
export { exportLedger } from './exportLedger.js'
export type { ExportManifest, ExportOptions } from './exportLedger.js'
export { ExportError, openExport } from './exportSource.js'
export type { OpenedExport, OpenExportOptions } from './exportSource.js'
export { readItemChain } from './itemChain.js'
export type { ItemChain } from './itemChain.js'
export { LedgerSealer } from './LedgerSealer.js'
export type { SealCounts, SealerEvent } from './LedgerSealer.js'
export type { LedgerSource } from './LedgerSource.js'
export type { LedgerSealerOptions } from './options.js'
export type { InvariantId, InvariantVerdict } from './verdicts.js'
export { verifyLedger } from './verifyLedger.js'
export type { LedgerReport, VerifyOptions } from './verifyLedger.js'
export { readCheckpointLines, writeCheckpoint } from './writeCheckpoint.js'
export type { CheckpointReport } from './writeCheckpoint.js'
