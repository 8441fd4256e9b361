import { AppError } from '../core/index.js'

export type DeploymentErrorCode =
  /** The package has no `schema/` folder. */
  'DEPLOYMENT_NO_SCHEMA_FILES'

export class DeploymentError extends AppError {
  declare readonly code: DeploymentErrorCode

  constructor(
    code: DeploymentErrorCode,
    message: string,
    options: { readonly cause?: unknown; readonly remedy?: string } = {},
  ) {
    super(code, message, options)
  }
}
