import type { Transaction } from '../db/index.js'
import { readDeploymentRecord, type Surroundings } from './db.js'
import type { Finding } from './findings.js'
import { restoreRemedy } from './refusals.js'
import { isNewer, readRelease } from './release.js'
import { OWNER_ROLE } from './roles.js'
import { inOrder, readSchemaFiles } from './schemaFiles.js'

/** A deployment of another release, which explains every difference that follows. Nothing if the role may not read the record. */
export async function releaseFindings(tx: Transaction): Promise<readonly Finding[]> {
  const record = await readDeploymentRecord(tx, tx.schema)
  if (record === 'unreadable') return []
  const release = readRelease()
  if (record === 'none') return [differentRelease(release.version, 'no record of a deployment', DEPLOY)]
  if (inOrder(readSchemaFiles()).every(({ name, sha256 }) => record.checksums.get(name) === sha256)) return []
  const remedy = isNewer(record, release) ? `Use release ${record.version} of Symphony, or a newer one.` : DEPLOY
  return [differentRelease(release.version, `release ${record.version} with other files`, remedy)]
}

/** One finding instead of one for each object whose owner and grants are missing. */
export function restoreFindings({ restoredAs }: Surroundings, schema: string): readonly Finding[] {
  if (restoredAs === null) return []
  return [
    {
      severity: 'drift',
      code: 'RESTORED_WITHOUT_ROLES',
      object: `schema ${schema}`,
      expected: `objects of ${OWNER_ROLE}`,
      found: `objects of ${restoredAs}: a dump was restored while the roles were missing`,
      remedy: restoreRemedy(schema),
    },
  ]
}

const DEPLOY = 'symphony deploy'

function differentRelease(expected: string, found: string, remedy: string): Finding {
  return {
    severity: 'drift',
    code: 'DEPLOYED_BY_ANOTHER_RELEASE',
    object: 'symphony_deployments',
    expected: `the files of release ${expected}`,
    found,
    remedy,
  }
}
