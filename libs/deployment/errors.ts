import { SymphonyError } from '../core/index.js'

export type DeploymentErrorCode =
  /** The package has no `schema/` folder, or the folder is incomplete. */
  | 'DEPLOYMENT_NO_SCHEMA_FILES'
  /** The server is too old or a standby, or the database has the wrong encoding. */
  | 'DEPLOYMENT_SERVER_UNFIT'
  /** The login lacks a right. The remedy is the SQL that a DBA has to run. */
  | 'DEPLOYMENT_RIGHTS_MISSING'
  /** A newer release than this one deployed the database. */
  | 'DEPLOYMENT_NEWER_DATABASE'
  | 'DEPLOYMENT_TABLES_DIFFER'
  /** The schema contains objects of Symphony's earlier design. `dropLegacy` drops them. */
  | 'DEPLOYMENT_LEGACY_OBJECTS'
  /** The schema contains objects of another owner. */
  | 'DEPLOYMENT_FOREIGN_OBJECTS'
  /** Other transactions held conflicting locks until the timeout. Nothing was changed. */
  | 'DEPLOYMENT_BLOCKED'
  /** A file of the schema failed. Nothing was changed. */
  | 'DEPLOYMENT_FILE_FAILED'
  /** A statement of the deployment had no effect. Nothing was changed. */
  | 'DEPLOYMENT_WITHOUT_EFFECT'
  /** A requested login exists, but with other attributes. */
  | 'DEPLOYMENT_LOGIN_MISMATCH'
  /** A dump was restored before the roles existed: owners and grants are lost. */
  | 'RESTORED_WITHOUT_ROLES'
  | 'NOT_DEPLOYED'
  /** The login of the doctor may not read the objects to examine. */
  | 'DOCTOR_ROLE_MISSING'

export class DeploymentError extends SymphonyError {
  declare readonly code: DeploymentErrorCode

  constructor(
    code: DeploymentErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly remedy?: string } = {},
  ) {
    super(code, message, options)
  }
}
