import { randomUUID } from 'node:crypto'
import { copyFile, readdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Client } from 'pg'
import type { deploy as deployOf } from '../../libs/deployment/index.js'
import { builtPath } from '../support/builtPath.js'
import { catalogOf } from '../support/catalogOf.js'
import { manifestText } from '../support/manifestText.js'
import { copyFolder } from '../support/server.js'
import type { ScenarioFixture } from './ScenarioFixture.js'

/** Functions of the hot path that get one more argument with a default, so that calls of old workers still match. */
const EXTENDED = [
  'enqueue_outbox_packed',
  'claim_outbox_packed',
  'complete_outbox_packed',
  'renew_outbox_leases',
  'release_outbox_leases',
  'heartbeat_outbox_worker',
]
const PRIVILEGES = join('v1', '011_privileges.sql')
const ARGUMENT = 'p_of_the_next_release'

export interface OtherRelease {
  /** Folder of the built release, used instead of dist/. */
  readonly dist: string
  /** Deployment of that release. */
  readonly deploy: typeof deployOf
}

/**
 * Builds a later release from this one. Hot-path functions get another argument, so their old signatures must be
 * dropped. Every plpgsql body changes, and there is one more function and view. Tables are unchanged: a release refuses
 * to start beside a column that it does not know. The version is the same, because deploy refuses an older version over
 * a newer.
 */
export async function makeNextRelease(
  fixture: ScenarioFixture,
  server: { readonly url: string },
): Promise<OtherRelease> {
  return makeRelease(await fixture.subfolder('next-release'), server.url, async (schema) => {
    const changed = await changeSchema(schema)
    if (changed < EXTENDED.length) throw new Error(`only ${changed} of ${EXTENDED.length} functions were extended`)
  })
}

/** Builds this release in an empty folder, with a changed schema and its manifest. */
export async function makeRelease(
  folder: string,
  serverUrl: string,
  change: (schema: string) => Promise<void>,
): Promise<OtherRelease> {
  const root = dirname(builtPath(''))
  const dist = join(folder, 'dist')
  await copyFolder(builtPath(''), dist)
  await copyFolder(join(root, 'schema'), join(folder, 'schema'))
  await copyFile(join(root, 'package.json'), join(folder, 'package.json'))
  await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  await change(join(folder, 'schema'))
  const { deploy }: { deploy: typeof deployOf } = await import(
    /* @vite-ignore */ pathToFileURL(join(dist, 'libs/deployment/index.js')).href
  )
  await writeManifest(folder, serverUrl, deploy)
  return { dist, deploy }
}

async function changeSchema(folder: string): Promise<number> {
  let extended = 0
  const functions = (await readdir(join(folder, 'functions'), { recursive: true })).filter((name) =>
    name.endsWith('.sql'),
  )
  for (const name of [...functions.map((one) => join('functions', one)), PRIVILEGES]) {
    const file = join(folder, name)
    let sql = await readFile(file, 'utf8')
    for (const one of EXTENDED) {
      const creation = new RegExp(`(CREATE OR REPLACE FUNCTION ${one}\\([^()]*?)(\\s*\\))`)
      if (creation.test(sql)) extended += 1
      sql = sql.replace(creation, `$1, ${ARGUMENT} text DEFAULT NULL$2`)
      // Comments and grants name a function by its argument types.
      const naming = new RegExp(`((?:COMMENT ON FUNCTION|^) *${one}\\((?!p_)[^()]*)(\\))`, 'gm')
      sql = sql.replace(naming, '$1, text$2')
    }
    sql = sql.replaceAll('#variable_conflict use_column\n', '#variable_conflict use_column\n-- Of the next release.\n')
    if (name === PRIVILEGES) sql += GRANTS
    await writeFile(file, sql)
  }
  await writeFile(join(folder, 'functions', 'next_release.sql'), NEW_FUNCTION)
  await writeFile(join(folder, 'views', 'next_release_view.sql'), NEW_VIEW)
  return extended
}

const NEW_FUNCTION = `
CREATE OR REPLACE FUNCTION next_release_name() RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT 'next' $$;
COMMENT ON FUNCTION next_release_name() IS 'Function of the next release.';
`
const NEW_VIEW = `
CREATE OR REPLACE VIEW next_release_queue AS SELECT count(*) AS pending FROM payment_outbox_pending;
COMMENT ON VIEW next_release_queue IS 'View of the next release.';
`
const GRANTS = `
GRANT EXECUTE ON FUNCTION next_release_name() TO symphony_executor;
GRANT SELECT ON next_release_queue TO symphony_readonly;
`

/** Writes the manifest of a fresh deployment of that release. */
async function writeManifest(folder: string, serverUrl: string, deploy: typeof deployOf): Promise<void> {
  const admin = new Client({ connectionString: serverUrl })
  const name = `release_${randomUUID().slice(0, 8)}`
  await admin.connect()
  await admin.query(`CREATE DATABASE ${name} TEMPLATE template0`)
  try {
    const url = new URL(serverUrl)
    url.pathname = `/${name}`
    await deploy({ url: url.href })
    const { rows } = await admin.query<{ version: number }>(
      `SELECT current_setting('server_version_num')::int / 10000 AS version`,
    )
    const catalog = await catalogOf(url.href, 'symphony')
    await writeFile(join(folder, 'schema', 'manifest.json'), manifestText(new Map([[rows[0]!.version, catalog]])))
  } finally {
    await admin.query(`DROP DATABASE ${name} WITH (FORCE)`)
    await admin.end()
  }
}
