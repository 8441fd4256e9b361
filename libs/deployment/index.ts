export { deploy } from './deploy.js'
export type { DeployOptions } from './deploy.js'
export { DeploymentError } from './errors.js'
export type { DeploymentErrorCode } from './errors.js'
