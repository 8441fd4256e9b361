/**
 * Bringing the schema to a database, and checking that it is still what was brought.
 *
 * `deploy` applies the files of `schema/` in one transaction, as the owner role, and writes down their checksums in
 * `symphony_deployments`; a crash leaves the database as it was. `doctor` compares the live catalog with the manifest of
 * the release, which is made from a fresh install and committed, and never with what the database says about itself.
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
