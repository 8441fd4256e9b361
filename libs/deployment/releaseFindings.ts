import type { Transaction } from '../db/index.js'
import { readDeploymentRecord } from './db.js'
import type { Finding } from './findings.js'
import { isNewer, readRelease } from './release.js'
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
