import { openLoginDatabase, type DatabaseOptions } from '../db/index.js'
import { readCatalog, type Catalog } from './catalog.js'
import { becomeAuditor } from './db.js'
import { notDeployedError } from './deploymentErrors.js'
import { readDeploymentHistory, readServerEnvironment, type DeployedFile } from './reads.js'

/** Deployed objects, and the history of deployments. */
export interface DeploymentDescription {
  readonly schema: string
  readonly catalog: Catalog
  readonly history: readonly DeployedFile[]
}

/** Reads the deployment. The login must be a member of `symphony_auditor`, or a superuser. */
export async function describeDeployment(
  options: Pick<DatabaseOptions, 'url' | 'schema' | 'tls'>,
): Promise<DeploymentDescription> {
  const database = openLoginDatabase({ ...options, applicationName: 'symphony evidence' })
  try {
    return await database.transaction('READ ONLY', async (tx) => {
      const { schema } = database
      const around = await readServerEnvironment(tx, schema)
      if (!around.isDeployed) throw notDeployedError(schema)
      await becomeAuditor(tx, around)
      return { schema, history: await readDeploymentHistory(tx, schema), catalog: await readCatalog(tx, schema) }
    })
  } finally {
    await database.close()
  }
}
