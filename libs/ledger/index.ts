/**
 * The ledger, held against itself and against the rail's book. Reads as symphony_auditor and changes nothing; hashes are
 * recomputed here, from exported text, because who could change a row could change the database's functions too.
 */
export { audit } from './auditor.js'
export type { AuditOptions, AuditReport, InvariantId, InvariantVerdict, RailEffect } from './auditor.js'
export { canonicalHash } from './chain.js'
export type { ChainBreak } from './chain.js'
export type { LedgerCounts } from './db.js'
export { readItemChain } from './itemChain.js'
export type { ItemChain } from './itemChain.js'
export { verifyChain } from './verifyChain.js'
export type { ChainReport } from './verifyChain.js'
