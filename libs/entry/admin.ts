/** Functions for administrators and auditors. They need a different login than an application. */
export { checkStart, deploy, doctor } from '../deployment/index.js'
export type {
  DeployOptions,
  DeployReport,
  Diagnosis,
  DoctorOptions,
  Finding,
  LoginRequest,
  StartCheck,
} from '../deployment/index.js'
export { checkEvidence, createCheckpointKeys, openLedger } from '../ledger/index.js'
export type {
  AuditReport,
  EvidenceCheck,
  InvariantVerdict,
  Ledger,
  LedgerBreak,
  LedgerReport,
} from '../ledger/index.js'
export { Vault } from '../protection/index.js'
export { ApiKeys } from '../access/index.js'
export type { ApiKeyRequest, ApiKeyStatus, Scope } from '../access/index.js'
