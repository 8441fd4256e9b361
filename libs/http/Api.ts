import type {
  DestinationHash,
  EnqueueChecks,
  InstructionEncryptor,
  OutboxStatus,
  readItemViews,
} from '../outbox/index.js'
import type { ReconcileOptions, Reconciliation } from '../reconciliation/index.js'
import type { Identity } from './access/Identity.js'
import type { AlertRule } from '../observability/index.js'
import type { Alert, DatabaseView } from './shapes/overview.js'

export type Role = Parameters<typeof readItemViews>[0]

/** Database roles of the API. Each scope has one role, and the privileges of the role limit the scope. */
export interface ApiRoles {
  /** symphony_ingest, for the scope ingest */
  readonly ingest: Role
  /** symphony_ingest on behalf of a person, to cancel a payment */
  readonly ingestFor: (identity: Pick<Identity, 'owner' | 'apiKey'>) => Role
  /** symphony_readonly, for the scope read */
  readonly readonly: Role
  /** symphony_auditor, for the scope audit */
  readonly auditor: Role
  /** symphony_control on behalf of a person, for the scope operate */
  readonly control: (identity: Pick<Identity, 'owner' | 'apiKey'>) => Role
  /**
   * Returns whether the database lets this process name owners of API keys as actors (`keys`), or any person (`names`).
   */
  readonly mayActFor: (people: 'keys' | 'names') => Promise<boolean>
  /** symphony_auth, to verify API keys */
  readonly auth: Role
}

/** Masks a payload for display. `masked` says whether a value was replaced. */
export type ShowPayload = (payload: string) => { readonly text: string; readonly masked: boolean }

/** Encrypts and masks payloads by the field classes that rails declare. */
export interface PayloadProtection extends InstructionEncryptor {
  /**
   * Returns the function that masks payloads of a rail. Uses the field classes that any process declared for the rail.
   */
  readonly maskFor: (role: Role, railType: string) => Promise<ShowPayload>
}

/** Dependencies of the API routes, given by the process that runs them. */
export interface Api {
  readonly roles: ApiRoles
  /** Name of the database in answers. Never its address. */
  readonly databaseName: string
  readonly readDatabases: () => Promise<readonly DatabaseView[]>
  /** Reads the status. Resolves even if the database does not answer. */
  readonly readStatusSnapshot: () => Promise<StatusSnapshot>
  /** Compares a bank statement with the ledger, with the rails and keys of this process. */
  readonly reconcile: (
    identity: Pick<Identity, 'owner' | 'apiKey'>,
    options: ReconcileOptions,
  ) => Promise<Reconciliation>
  /** Alert rules that `readStatusSnapshot` evaluates, with their thresholds. @default ALERT_RULES */
  readonly alertRules?: readonly AlertRule[]
  /** Rails that check payments before COMMIT. @default no check */
  readonly rails?: EnqueueChecks['rails']
  /** Hash of destinations. Without it, search by destination is refused. */
  readonly destinationHash?: DestinationHash
  /** Field protection. Without it, payloads are shown as stored. */
  readonly protection?: PayloadProtection
}

/** Alerts, and the status of the queue that was read for them. */
export interface StatusSnapshot {
  readonly alerts: readonly Alert[]
  /** Status of the queue; undefined if it was not read or the read failed. */
  readonly queue?: OutboxStatus | undefined
}
