/**
 * Deployment of the schema, and checks of a deployed schema.
 *
 * `deploy` applies the files of `schema/` in one transaction as the owner role, and records their checksums in
 * `symphony_deployments`; a crash changes nothing. `doctor` compares the live catalog with the manifest of the release.
 * The manifest is generated from a fresh install and committed, so that the doctor does not compare the database with
 * itself.
 */
export { checkStart } from './checkStart.js'
export type { StartCheck, StartCheckOptions } from './checkStart.js'
export type { Catalog, Properties } from './catalog.js'
export { deploy } from './deploy.js'
export { describeDeployment } from './describeDeployment.js'
export type { DeploymentDescription } from './describeDeployment.js'
export { doctor } from './doctor.js'
export type { Diagnosis, DoctorOptions } from './doctor.js'
export { DeploymentError } from './errors.js'
export type { DeploymentErrorCode } from './errors.js'
export type { Finding } from './findings.js'
export type { DeployedLogin, DeployReport } from './Installer.js'
export { parseLoginRequest } from './logins.js'
export type { LoginRequest } from './logins.js'
export type { DeployOptions } from './options.js'
export type { DeployedFile } from './reads.js'
export type { RuntimeRole } from './roles.js'
