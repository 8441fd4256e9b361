import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkStart, deploy, doctor } from '../../libs/deployment/index.js'
import { catalogOf } from '../support/catalogOf.js'
import { createTestDatabase, testSchema, type TestDatabase } from '../support/database.js'
import { quoteIdentifier } from '../../libs/db/index.js'

let db: TestDatabase
const schema = testSchema()

beforeEach(async () => {
  db = await createTestDatabase({ content: 'empty' })
})
afterEach(() => db.drop())

const LEGACY = `
  CREATE TYPE outbox_status AS ENUM ('PENDING', 'DISPATCHING', 'DISPATCHED', 'FAILED');
  CREATE TABLE payment_outbox (id bigserial PRIMARY KEY, status outbox_status NOT NULL);
  CREATE VIEW supervisor_outbox_status AS SELECT status, count(*) FROM payment_outbox GROUP BY status;
  INSERT INTO payment_outbox (status) VALUES ('PENDING')`

describe('objects of the legacy outbox', () => {
  test.each([
    ['in a schema of another owner', async () => createSchema()],
    ['in a schema that was deployed already', async () => void (await deploy({ url: db.url, schema }))],
  ])('stop a deployment, or are dropped by it if dropLegacy is set: %s', async (_, prepare) => {
    await prepare()
    await db.queryNoRole('DROP VIEW IF EXISTS supervisor_outbox_status')
    await db.queryNoRole(LEGACY)
    await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({
      code: 'DEPLOYMENT_LEGACY_OBJECTS',
      message: expect.stringMatching(/payment_outbox.*outbox_status/),
      remedy: expect.stringContaining('--drop-legacy'),
    })
    const { rows } = await db.queryNoRole('SELECT count(*)::int AS kept FROM payment_outbox')
    expect(rows).toEqual([{ kept: 1 }])
    expect(await deploy({ url: db.url, schema, dropLegacy: true })).toMatchObject({ outcome: 'deployed' })
    expect((await doctor({ url: db.url, schema })).ok).toBe(true)
  })

  test('stop a deployment even if only the enum outbox_status exists', async () => {
    await createSchema()
    await db.queryNoRole(`CREATE TYPE outbox_status AS ENUM ('PENDING')`)
    await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({ code: 'DEPLOYMENT_LEGACY_OBJECTS' })
    await deploy({ url: db.url, schema, dropLegacy: true })
    expect((await doctor({ url: db.url, schema })).ok).toBe(true)
  })

  test('are not dropped if an unknown object depends on them (DEPLOYMENT_FILE_FAILED)', async () => {
    await createSchema()
    await db.queryNoRole(LEGACY)
    await db.queryNoRole('CREATE SCHEMA reports')
    await db.queryNoRole('CREATE VIEW reports.pending AS SELECT * FROM payment_outbox')
    await expect(deploy({ url: db.url, schema, dropLegacy: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_FILE_FAILED',
    })
    expect((await db.queryNoRole('SELECT * FROM payment_outbox')).rows).toHaveLength(1)
  })
})

describe('an existing target schema of a deployment', () => {
  test('is taken over if it is empty', async () => {
    await createSchema()
    await deploy({ url: db.url, schema })
    expect((await doctor({ url: db.url, schema })).ok).toBe(true)
  })

  test('is refused, unchanged, if it contains other objects (DEPLOYMENT_FOREIGN_OBJECTS)', async () => {
    await createSchema()
    await db.queryNoRole('CREATE TABLE invoices (id int)')
    await db.queryNoRole('CREATE FUNCTION tax() RETURNS int LANGUAGE sql RETURN 19')
    await expect(deploy({ url: db.url, schema, dropLegacy: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_FOREIGN_OBJECTS',
      message: expect.stringMatching(/tax.*invoices/s),
    })
    const { rows } = await db.queryNoRole(
      'SELECT pg_get_userbyid(nspowner)::text AS owner FROM pg_namespace WHERE nspname = $1',
      [schema],
    )
    expect(rows).toEqual([{ owner: 'postgres' }])
  })

  test('is refused if a table of Symphony has another owner; the error names the table', async () => {
    await deploy({ url: db.url, schema })
    await db.queryNoRole('ALTER TABLE payment_outbox_attempts OWNER TO postgres')
    await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({
      code: 'DEPLOYMENT_FOREIGN_OBJECTS',
      message: expect.stringContaining('payment_outbox_attempts of postgres'),
    })
  })
})

test('doctor, checkStart and deploy report a dump restored without roles, with the same remedy', async () => {
  await deploy({ url: db.url, schema })
  // Owners and grants as pg_restore leaves them: the superuser owns every object, and no other role has a right.
  await db.queryNoRole(`DO $$ BEGIN EXECUTE (
    SELECT string_agg(format('ALTER %s %s OWNER TO CURRENT_USER', o.kind, o.name), ';') FROM (
      SELECT CASE relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END AS kind, oid::regclass::text AS name FROM pg_class
      WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v')
      UNION ALL SELECT 'ROUTINE', oid::regprocedure::text FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
      UNION ALL SELECT 'TYPE', oid::regtype::text FROM pg_type
        WHERE typnamespace = current_schema()::regnamespace AND typtype = 'e'
      UNION ALL SELECT 'SCHEMA', quote_ident(current_schema())) o); END $$`)
  const remedy = expect.stringMatching(
    /^DROP SCHEMA .* CASCADE, run symphony deploy --roles-only, and restore the dump again/,
  )
  const { ok, findings } = await doctor({ url: db.url, schema })
  expect({ ok, findings }).toMatchObject({ ok: false, findings: [{ code: 'RESTORED_WITHOUT_ROLES', remedy }] })
  expect((await checkStart({ url: db.url, schema })).refusals).toMatchObject([
    { code: 'RESTORED_WITHOUT_ROLES', remedy },
  ])
  await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({ code: 'RESTORED_WITHOUT_ROLES', remedy })
})

describe('deploy to an unsuitable database', () => {
  test('fails if the encoding of the database is not UTF8 (DEPLOYMENT_SERVER_UNFIT)', async () => {
    const name = `${db.name}_ascii`
    await db.queryNoRole(
      `CREATE DATABASE ${name} ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0`,
    )
    const url = db.url.replace(db.name, name)
    try {
      await expect(deploy({ url, schema })).rejects.toMatchObject({
        code: 'DEPLOYMENT_SERVER_UNFIT',
        message: expect.stringContaining('UTF8'),
        remedy: expect.stringContaining('ENCODING'),
      })
    } finally {
      await db.queryNoRole(`DROP DATABASE ${name} WITH (FORCE)`)
    }
  })
})

test('a database without the ICU root collation is refused, and the remedy names ICU', async () => {
  await db.queryNoRole('DROP COLLATION pg_catalog."und-x-icu"')
  await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({
    code: 'DEPLOYMENT_SERVER_UNFIT',
    message: expect.stringContaining('und-x-icu'),
    remedy: expect.stringContaining('built with ICU'),
  })
})

describe('a failed deployment', () => {
  test('leaves the database unchanged, and names the failed file', async () => {
    await deploy({ url: db.url, schema })
    const owner = await db.connect('symphony_owner')
    // CREATE OR REPLACE VIEW cannot replace this table.
    await owner.query('DROP VIEW outbox_operational_status; CREATE TABLE outbox_operational_status (id int)')
    await owner.query('DROP INDEX ix_pending_claimable')
    const before = await catalogOf(db.url, schema)
    await expect(deploy({ url: db.url, schema, reapply: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_FILE_FAILED',
      message: expect.stringContaining('schema/views/outbox_status_view.sql'),
    })
    expect(await catalogOf(db.url, schema)).toEqual(before)
  })
})

describe('deploy with rolesOnly', () => {
  test('creates roles and logins, and changes nothing in the database', async () => {
    const login = `relayer_${db.name}`
    const createLogins = [{ name: login, roles: ['executor'] }] as const
    expect(await deploy({ url: db.url, schema, rolesOnly: true, createLogins })).toMatchObject({
      outcome: 'roles',
      logins: [{ name: login, created: true }],
    })
    const { rows } = await db.queryNoRole(
      `SELECT pg_has_role($2, 'symphony_executor', 'MEMBER') AS member,
         ARRAY(SELECT nspname::text FROM pg_namespace WHERE nspname = $1) AS schemas`,
      [schema, login],
    )
    expect(rows).toEqual([{ member: true, schemas: [] }])
  })

  test('prints only the roles in a dry run', async () => {
    const { sql } = await deploy({ url: db.url, schema, rolesOnly: true, dryRun: true })
    expect(sql).toContain('-- schema/v1/002_roles.sql')
    expect(sql).not.toContain('CREATE SCHEMA')
  })

  test.each(['reapply', 'dropLegacy', 'dedicatedDatabase'])('refuses the option %s', async (option) => {
    await expect(deploy({ url: db.url, schema, rolesOnly: true, [option]: true })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      argument: 'rolesOnly',
    })
  })
})

describe('a dry run of deploy', () => {
  test('changes nothing, and its SQL deploys the same schema', async () => {
    const { sql, outcome } = await deploy({ url: db.url, schema, dryRun: true })
    expect(outcome).toBe('planned')
    const { rows } = await db.queryNoRole('SELECT 1 FROM pg_namespace WHERE nspname = $1', [schema])
    expect(rows).toEqual([])
    await db.queryNoRole(sql!)
    expect((await doctor({ url: db.url, schema })).ok).toBe(true)
    expect(await deploy({ url: db.url, schema })).toMatchObject({ outcome: 'unchanged' })
  })

  test('prints privileges and no CREATE TABLE for an existing deployment', async () => {
    await deploy({ url: db.url, schema })
    const { sql } = await deploy({ url: db.url, schema, dryRun: true })
    expect(sql).toContain('-- schema/v1/011_privileges.sql')
    expect(sql).not.toContain('CREATE TABLE')
  })

  test('prints a new login without a password', async () => {
    const createLogins = [{ name: 'new_login', roles: ['ingest'], password: 'very secret' }] as const
    const { sql } = await deploy({ url: db.url, schema, dryRun: true, createLogins })
    expect(sql).toContain('CREATE ROLE "new_login" LOGIN INHERIT;')
    expect(sql).not.toContain("PASSWORD '")
  })

  test('refuses legacy objects, as a real deployment does (DEPLOYMENT_LEGACY_OBJECTS)', async () => {
    await createSchema()
    await db.queryNoRole(LEGACY)
    await expect(deploy({ url: db.url, schema, dryRun: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_LEGACY_OBJECTS',
    })
  })
})

describe('deploy with dedicatedDatabase', () => {
  test('leaves PUBLIC neither TEMP nor CREATE', async () => {
    await db.queryNoRole('GRANT CREATE ON SCHEMA public TO PUBLIC')
    await deploy({ url: db.url, schema, dedicatedDatabase: true })
    const unprivileged = await db.createLogin('unprivileged')
    const client = await unprivileged.connect()
    await expect(client.query('CREATE TEMP TABLE t (id int)')).rejects.toThrow(/permission denied/)
    await expect(client.query('CREATE TABLE public.t (id int)')).rejects.toThrow(/permission denied/)
    await expect(client.query('CREATE SCHEMA mine')).rejects.toThrow(/permission denied/)
    const { findings } = await doctor({ url: db.url, schema })
    expect(findings.map(({ code }) => code)).toEqual(['LOGIN_IS_SUPERUSER'])
  })
})

async function createSchema(): Promise<void> {
  await db.queryNoRole(`CREATE SCHEMA ${quoteIdentifier(schema)}`)
}
