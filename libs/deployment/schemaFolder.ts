import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DeploymentError } from './errors.js'

/** Found by walking up, because compiled code lies deeper in the package than its source. */
export function schemaFolder(): string {
  let folder = dirname(fileURLToPath(import.meta.url))
  while (!existsSync(join(folder, 'schema', 'v1'))) {
    const parent = dirname(folder)
    if (parent === folder) {
      throw new DeploymentError('DEPLOYMENT_NO_SCHEMA_FILES', 'The folder schema/ is missing from this package.', {
        remedy: 'Install the package again.',
      })
    }
    folder = parent
  }
  return join(folder, 'schema')
}
