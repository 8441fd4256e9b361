import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import type { Catalog } from '../../libs/deployment/catalog.js'
import { deploy } from '../../libs/deployment/index.js'
import { catalogOf } from '../support/catalogOf.js'
import { manifestText } from '../support/manifestText.js'
import { startPrivateServer, type PostgresVersion } from '../support/server.js'
import { snapshotText } from '../support/snapshotText.js'

/** A name that needs quoting on one of them: the manifest must not notice. */
const INSTALLS: readonly (readonly [PostgresVersion, string])[] = [
  [15, 'symphony'],
  [16, 'Pay Out-box é'],
  [17, 'select'],
  [18, 'symphony'],
]

const catalogs = new Map<number, Catalog>()

beforeAll(async () => {
  for (const [version, schema] of INSTALLS) catalogs.set(version, await freshCatalog(version, schema))
})

// Either of these fails after a change to schema/: run node scripts/snapshot.mjs and review what it writes.
test('schema/snapshot.sql is what a fresh install gives', async () => {
  const generated = snapshotText(catalogs.get(18)!)
  expect(await committed('schema/snapshot.sql', generated)).toBe(generated)
})

test('schema/manifest.json is what fresh installs on PostgreSQL 15 to 18 give, whatever the schema is called', async () => {
  const generated = manifestText(catalogs)
  expect(await committed('schema/manifest.json', generated)).toBe(generated)
})

test('only the generator of identifiers differs between the versions', () => {
  const differing = [15, 16, 17].map((version) => differences(catalogs.get(version)!, catalogs.get(18)!))
  expect(differing).toEqual([['functions uuid_v7()'], ['functions uuid_v7()'], ['functions uuid_v7()']])
})

/** The file as it is, unless this run was told to write it. */
async function committed(path: string, generated: string): Promise<string> {
  const file = new URL(`../../${path}`, import.meta.url)
  if (process.env['SYMPHONY_WRITE_SNAPSHOT'] === '1') await writeFile(file, generated)
  return readFile(file, 'utf8')
}

async function freshCatalog(version: PostgresVersion, schema: string): Promise<Catalog> {
  const server = await startPrivateServer({ version })
  try {
    await deploy({ url: server.url, schema })
    return await catalogOf(server.url, schema)
  } finally {
    await server.remove()
  }
}

function differences(one: Catalog, other: Catalog): readonly string[] {
  return [...one].flatMap(([kind, objects]) =>
    [...objects]
      .filter(([name, properties]) => JSON.stringify(properties) !== JSON.stringify(other.get(kind)?.get(name)))
      .map(([name]) => `${kind} ${name}`),
  )
}
