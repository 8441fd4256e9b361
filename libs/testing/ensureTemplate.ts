import { createHash } from 'node:crypto'
import type { Queryable } from '../db/index.js'
import { deploy } from '../deployment/index.js'
import { createMarkedDatabase, databaseExists, dropDatabase } from './db.js'
import { urlTo } from './serverUrl.js'

/** Templates that this process has deployed to. */
const current = new Set<string>()

/**
 * Returns the template database for tests, with the schema of this release. A clone takes a tenth of a second, a
 * deployment several seconds. The caller must hold the lock of `lockTemplates`. Upgrades the template of an earlier
 * run, or recreates it if the upgrade is refused, as after a downgrade.
 */
export async function ensureTemplate(superuser: Queryable, serverUrl: string, schema: string): Promise<string> {
  const name = templateName(schema)
  const url = urlTo(serverUrl, name)
  if (current.has(`${url} ${schema}`)) return name
  const existed = await databaseExists(superuser, name)
  if (!existed) await createMarkedDatabase(superuser, name, 'template0')
  try {
    await deploy({ url, schema })
  } catch (error) {
    if (!existed) throw error
    await dropDatabase(superuser, name)
    await createMarkedDatabase(superuser, name, 'template0')
    await deploy({ url, schema })
  }
  current.add(`${url} ${schema}`)
  return name
}

/**
 * Returns a name that is unique per installation of this package, so that two releases on one server share no template.
 */
export function templateName(schema: string): string {
  const digest = createHash('sha256')
    .update(`${import.meta.url} ${schema}`)
    .digest('hex')
  return `symphony_template_${digest.slice(0, 12)}`
}
