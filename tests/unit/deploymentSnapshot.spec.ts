import { readFile, writeFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import type { Catalog } from '../../libs/deployment/catalog.js'
import { compareCatalogs } from '../../libs/deployment/compareCatalogs.js'
import { deploy } from '../../libs/deployment/index.js'
import { catalogOf } from '../support/catalogOf.js'
import { manifestText } from '../support/manifestText.js'
import { startPrivateServer, type PostgresVersion } from '../support/server.js'
import { snapshotText } from '../support/snapshotText.js'
import { ask } from '../support/standby.js'

/** PostgreSQL versions and schema names. Two names need quoting. The manifest must not depend on the name. */
const INSTALLS: readonly (readonly [PostgresVersion, string])[] = [
  [15, 'symphony'],
  [16, 'Pay Out-box é'],
  [17, 'select'],
  [18, 'symphony'],
]

const catalogs = new Map<number, Catalog>()
/** Objects of the same installs after each object was created again from its printed definition. */
const reprinted = new Map<number, Catalog>()

beforeAll(async () => {
  for (const [version, schema] of INSTALLS) await readInstall(version, schema)
})

// The next two tests fail after a change to schema/: run node scripts/snapshot.mjs and review its output.
test('schema/snapshot.sql matches a fresh install', async () => {
  const generated = snapshotText(catalogs.get(18)!)
  expect(await committed('schema/snapshot.sql', generated)).toBe(generated)
})

test('schema/manifest.json matches installs on PostgreSQL 15 to 18 under any schema name', async () => {
  const generated = manifestText(catalogs)
  expect(await committed('schema/manifest.json', generated)).toBe(generated)
})

test('the schema differs between PostgreSQL versions only in uuid_v7 and, on 15, in four views', () => {
  const differing = [15, 16, 17].map((version) => differences(catalogs.get(version)!, catalogs.get(18)!).toSorted())
  expect(differing).toEqual([
    // PostgreSQL 15 prints the table's alias before each column.
    [
      'functions uuid_v7()',
      'relations outbox_queue_parts',
      'relations outbox_queue_status',
      'relations scheduler_job_runs',
      'relations scheduler_timers',
    ],
    ['functions uuid_v7()'],
    ['functions uuid_v7()'],
  ])
})

// pg_dump prints the same definitions. `npm run debian` runs pg_dump and pg_restore themselves.
test.each(INSTALLS)(
  'PostgreSQL %i recreates every object from its printed definition, as a restore does',
  (version) => {
    const changes = compareCatalogs(catalogs.get(version)!, reprinted.get(version)!)
    // Leaves out comments and the mode of triggers: dropping an object loses both, and pg_dump writes both again.
    const ofDefinitions = changes.filter(({ object }) => !/\((?:comment|enabled)\)$/.test(object))
    expect(ofDefinitions.map(({ object, expected, found }) => ({ object, expected, found }))).toEqual([])
  },
)

/** Returns the committed file, after writing it if SYMPHONY_WRITE_SNAPSHOT is 1. */
async function committed(path: string, generated: string): Promise<string> {
  const file = new URL(`../../${path}`, import.meta.url)
  if (process.env['SYMPHONY_WRITE_SNAPSHOT'] === '1') await writeFile(file, generated)
  return readFile(file, 'utf8')
}

async function readInstall(version: PostgresVersion, schema: string): Promise<void> {
  const server = await startPrivateServer({ version })
  try {
    await deploy({ url: server.url, schema })
    catalogs.set(version, await catalogOf(server.url, schema))
    await ask(server.url, reprint(schema))
    reprinted.set(version, await catalogOf(server.url, schema))
  } finally {
    await server.remove()
  }
}

/** Creates every object again from its printed definition. The search path is empty, as pg_dump sets it. */
function reprint(schema: string): string {
  return `
    DO $reprint$
    DECLARE
      v_schema CONSTANT oid := (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = '${schema}');
      v_statement text;
    BEGIN
      SET LOCAL search_path = '';
      FOREACH v_statement IN ARRAY ARRAY(
        SELECT pg_catalog.pg_get_functiondef(p.oid) FROM pg_catalog.pg_proc p WHERE p.pronamespace = v_schema
        UNION ALL
        SELECT format('CREATE OR REPLACE VIEW %s %s AS %s', c.oid::regclass,
          'WITH (' || pg_catalog.array_to_string(c.reloptions, ', ') || ')', pg_catalog.pg_get_viewdef(c.oid))
        FROM pg_catalog.pg_class c WHERE c.relnamespace = v_schema AND c.relkind = 'v'
        UNION ALL
        SELECT format('ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %2$I %3$s', k.conrelid::regclass, k.conname,
          pg_catalog.pg_get_constraintdef(k.oid))
        FROM pg_catalog.pg_constraint k WHERE k.connamespace = v_schema AND k.contype = 'c'
        UNION ALL
        SELECT format('DROP INDEX %s; %s', x.indexrelid::regclass, pg_catalog.pg_get_indexdef(x.indexrelid))
        FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class c ON c.oid = x.indexrelid
        WHERE c.relnamespace = v_schema
          AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint k WHERE k.conindid = x.indexrelid)
        UNION ALL
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', a.attrelid::regclass, a.attname,
          pg_catalog.pg_get_expr(d.adbin, d.adrelid))
        FROM pg_catalog.pg_attrdef d
        JOIN pg_catalog.pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum AND a.attgenerated = ''
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relnamespace = v_schema
        UNION ALL
        SELECT format('DROP TRIGGER %I ON %s; %s', t.tgname, t.tgrelid::regclass, pg_catalog.pg_get_triggerdef(t.oid))
        FROM pg_catalog.pg_trigger t JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid AND c.relnamespace = v_schema
        WHERE NOT t.tgisinternal)
      LOOP
        EXECUTE v_statement;
      END LOOP;
    END
    $reprint$`
}

function differences(one: Catalog, other: Catalog): readonly string[] {
  return [...one].flatMap(([kind, objects]) =>
    [...objects]
      .filter(([name, properties]) => JSON.stringify(properties) !== JSON.stringify(other.get(kind)?.get(name)))
      .map(([name]) => `${kind} ${name}`),
  )
}
