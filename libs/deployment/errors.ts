import { SymphonyError } from '../core/index.js'

export type DeploymentErrorCode =
  /** The package has no `schema/` folder, or the folder is incomplete. */
  | 'DEPLOYMENT_NO_SCHEMA_FILES'
  /** The server is too old or a standby, or the database has the wrong encoding. */
  | 'DEPLOYMENT_SERVER_UNFIT'
  /** The login may not do what has to be done; the remedy is the SQL that a DBA has to run. */
  | 'DEPLOYMENT_RIGHTS_MISSING'
  /** The database was deployed by a newer release than this one. */
  | 'DEPLOYMENT_NEWER_DATABASE'
  | 'DEPLOYMENT_TABLES_DIFFER'
  /** The schema holds objects of the outbox that came before this one. */
  | 'DEPLOYMENT_LEGACY_OBJECTS'
  /** The schema holds objects that belong to somebody else. */
  | 'DEPLOYMENT_FOREIGN_OBJECTS'
  /** Other transactions stood in the way until patience ended. Nothing was changed. */
  | 'DEPLOYMENT_BLOCKED'
  /** A file of the schema failed. Nothing was changed. */
  | 'DEPLOYMENT_FILE_FAILED'
  /** PostgreSQL accepted a statement that did not have its effect. Nothing was changed. */
  | 'DEPLOYMENT_WITHOUT_EFFECT'
  /** A login that was asked for exists, but is of another kind. */
  | 'DEPLOYMENT_LOGIN_MISMATCH'
  /** A dump was restored before the roles existed: owners and grants are lost. */
  | 'RESTORED_WITHOUT_ROLES'
  /** There is no deployment in this schema. */
  | 'NOT_DEPLOYED'
  /** The doctor's login may not read what it has to examine. */
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
