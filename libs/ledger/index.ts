/**
 * Verifies the ledger against its own hashes and against the rail book. Auditors start with `openLedger`, which reads
 * as symphony_auditor. This module recomputes the hashes in its own process, because a superuser who changes a row
 * could also change the functions of the database.
 *
 * `LedgerSealer` seals a hash of each row in blocks. Checkpoints sign the heads of blocks and are stored outside the
 * database. After a crash of the sealer, the next run seals the remaining rows.
 */
export type { AuditReport } from './auditor.js'
export type { RailEffect } from './invariants.js'
export { describeBreak } from './breaks.js'
export type { LedgerBreak } from './breaks.js'
export { checkEvidence } from './checkEvidence.js'
export type { EvidenceCheck } from './checkEvidence.js'
export { CheckpointError, createCheckpointKeys, readCheckpoints } from './checkpoints.js'
export type { Checkpoint } from './checkpoints.js'
export { databaseSource } from './LedgerSource.js'
export {
  projectLedgerBlock,
  readSealingStatus,
  rebuildLedgerProjection,
  recordLedgerVerification,
  sealLedgerBlock,
  verifyLedgerBlock,
} from './db.js'
export type { LedgerCounts, SealingBlocker, SealingStatus, VerifiedBlock } from './db.js'
export { EvidenceError } from './evidence.js'
export { ExportError, exportLedger } from './exportLedger.js'
export type { ExportManifest, ExportOptions } from './exportLedger.js'
export { openExport } from './exportSource.js'
export type { OpenedExport } from './exportSource.js'
export type { LedgerRow } from './LedgerRow.js'
export { openLedger } from './Ledger.js'
export type { CheckpointFiles, Ledger } from './Ledger.js'
export { LedgerProjector } from './LedgerProjector.js'
export type { ProjectionCounts, ProjectorEvent } from './LedgerProjector.js'
export { LedgerSealer } from './LedgerSealer.js'
export type { SealCounts, SealerEvent } from './LedgerSealer.js'
export type { LedgerSource } from './LedgerSource.js'
export { LedgerVerifier } from './LedgerVerifier.js'
export type { VerifierEvent } from './LedgerVerifier.js'
export type { LedgerSealerOptions, LedgerVerifierOptions } from './options.js'
export { readItemProof } from './proof.js'
export type { ItemPosition, ProofRange, ProvenRow, RowProof } from './proof.js'
export type { InvariantId, InvariantVerdict } from './invariants.js'
export { verifyLedger } from './verifyLedger.js'
export type { LedgerReport, VerifyOptions } from './verifyLedger.js'
export { readCheckpointLines, writeCheckpoint } from './writeCheckpoint.js'
export type { CheckpointReport } from './writeCheckpoint.js'
