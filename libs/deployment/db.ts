import { quoteIdentifier, type Queryable } from '../db/index.js'
import type { LoginStatement } from './logins.js'
import type { ServerEnvironment } from './reads.js'
import type { Release } from './release.js'
import { OWNER_ROLE, RUNTIME_ROLES } from './roles.js'
import type { SchemaFile } from './schemaFiles.js'

/*
 * Statements of the installer and the doctor, besides the files of schema/. The steps of a deployment have no
 * parameters, so that a dry run prints exactly the SQL that a deployment executes. Queries about the server are in
 * reads.ts.
 */

/** SQL that is run or printed as it is. */
export interface Step {
  readonly title: string
  readonly sql: string
  /** Whether the step creates a login, which a concurrent deployment may create first. @default false */
  readonly createsLogin?: boolean
}

/** Returns the steps as one transaction. After an error PostgreSQL refuses the rest, and COMMIT rolls back. */
export function asScript(steps: readonly Step[]): string {
  const parts = steps.map(({ title, sql }) => `-- ${title}\n\n${sql.trimEnd()}\n`)
  return ['BEGIN;\n', ...parts, 'COMMIT;'].join('\n')
}

/**
 * Maximum wait for a lock. While a deployment waits for a lock, later transactions queue behind it. So an attempt ends
 * soon and is repeated.
 */
const LOCK_TIMEOUT = '500ms'

/** Statement timeout of a deployment. Building an index on a large ledger takes long. */
export const INSTALLER_STATEMENT_TIMEOUT_MS = 1_800_000

/** Overrides settings of the login, the database and the session that could affect the created objects. */
export const INSTALLER_SETTINGS = `SET LOCAL ROLE NONE;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL statement_timeout = ${INSTALLER_STATEMENT_TIMEOUT_MS};
SET LOCAL lock_timeout = '${LOCK_TIMEOUT}';
SET LOCAL client_min_messages = warning;
SET LOCAL standard_conforming_strings = on;
SET LOCAL quote_all_identifiers = off;
SET LOCAL check_function_bodies = off;
SET LOCAL default_tablespace = '';
SET LOCAL default_table_access_method = heap;`

export function createRole(role: string): string {
  return `CREATE ROLE ${quoteIdentifier(role)} NOLOGIN NOINHERIT;`
}

export function createSchema(schema: string): string {
  return `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)} AUTHORIZATION ${OWNER_ROLE};`
}

/** Returns a DROP SCHEMA statement, which is only printed as a remedy. */
export function dropSchema(schema: string): string {
  return `DROP SCHEMA ${quoteIdentifier(schema)} CASCADE`
}

export function giveSchemaToOwner(schema: string): string {
  return `ALTER SCHEMA ${quoteIdentifier(schema)} OWNER TO ${OWNER_ROLE};`
}

/**
 * Grants the owner role to the deploying login for one transaction. The deployment revokes it before COMMIT, and a
 * ROLLBACK undoes the grant.
 */
export function grantOwnerToLogin(login: string, version: number): string {
  return `GRANT ${OWNER_ROLE} TO ${quoteIdentifier(login)}${version >= 16 ? ' WITH INHERIT FALSE, SET TRUE' : ''};`
}

export function revokeOwnerFromLogin(login: string): string {
  return `REVOKE ${OWNER_ROLE} FROM ${quoteIdentifier(login)};`
}

/**
 * Switches to the owner role and the schema. COMMENT locks the schema until COMMIT. Only deployments take this lock,
 * and it blocks nothing else. An advisory lock would not be safe, because any login could hold it.
 */
export function enterSchemaAsOwner(schema: string): string {
  const name = quoteIdentifier(schema)
  return `SET LOCAL ROLE ${OWNER_ROLE};
COMMENT ON SCHEMA ${name} IS 'Symphony: deployed by "symphony deploy", checked by "symphony doctor".';
${useSchema(schema)}`
}

/** Sets the search path. Names the temporary schema last, because PostgreSQL searches it first if it is not named. */
export function useSchema(schema: string): string {
  return `SET LOCAL search_path = ${quoteIdentifier(schema)}, pg_temp;`
}

export const LEAVE_SCHEMA = `SET LOCAL ROLE NONE;
SET LOCAL search_path = pg_catalog, pg_temp;`

/**
 * Locks all tables at once before any file is applied. Locks taken one by one could deadlock with workers that write
 * the tables in another order. The timeout is at most half of `deadlock_timeout`, so that PostgreSQL never cancels a
 * worker because of a deployment.
 */
export const LOCK_TABLES = `SELECT set_config('statement_timeout', GREATEST(1, LEAST(500, setting::int / 2))::text, true)
FROM pg_settings WHERE name = 'deadlock_timeout';
DO $$
DECLARE
  v_tables text := (
    SELECT string_agg(c.oid::regclass::text, ', ' ORDER BY c.relname)
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'p'));
BEGIN
  IF v_tables IS NOT NULL THEN
    EXECUTE 'LOCK TABLE ' || v_tables || ' IN SHARE ROW EXCLUSIVE MODE';
  END IF;
END
$$;
SET LOCAL statement_timeout = ${INSTALLER_STATEMENT_TIMEOUT_MS};`

/** Drops the objects of Symphony's earlier design. Uses no CASCADE, because other dependent objects are not ours. */
export const DROP_LEGACY = `DROP VIEW IF EXISTS supervisor_outbox_status;
DROP TABLE IF EXISTS payment_outbox;
DROP TYPE IF EXISTS outbox_status;`

/**
 * Returns the statement that drops these functions and our functions that depend on them. The files create all of them
 * again.
 */
export async function dropFunctions(tx: Queryable, schema: string, names: readonly string[]): Promise<string> {
  const { rows } = await tx.query<{ list: string | null }>(WITH_DEPENDENT_FUNCTIONS, [schema, names])
  const list = rows[0]?.list ?? null
  return list === null ? '' : `DROP ROUTINE ${list};`
}

/** Finds dependent functions. PostgreSQL records dependencies only for functions with a body in SQL-standard form. */
const WITH_DEPENDENT_FUNCTIONS = `
  WITH RECURSIVE ours AS (
    SELECT p.oid, format('%s(%s)', p.proname, oidvectortypes(p.proargtypes)) AS name
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1
  ), doomed AS (
    SELECT o.oid FROM ours o WHERE o.name = ANY ($2)
    UNION
    SELECT o.oid FROM doomed f
    JOIN pg_depend d ON d.refclassid = 'pg_proc'::regclass AND d.refobjid = f.oid AND d.classid = 'pg_proc'::regclass
    JOIN ours o ON o.oid = d.objid
  )
  SELECT string_agg(oid::regprocedure::text, ', ' ORDER BY oid::regprocedure::text) AS list FROM doomed`

export function dropViews(names: readonly string[]): string {
  return names.length === 0 ? '' : `DROP VIEW IF EXISTS ${names.map(quoteIdentifier).join(', ')};`
}

export function recordDeployment({ schemaLevel, version }: Release, files: readonly SchemaFile[]): string {
  const names = files.map(({ name }) => quoteLiteral(name)).join(',\n  ')
  const checksums = files.map(({ sha256 }) => quoteLiteral(sha256)).join(',\n  ')
  return `SELECT record_deployment(${schemaLevel}, ${quoteLiteral(version)}, ARRAY[
  ${names}
], ARRAY[
  ${checksums}
]);`
}

export function dedicateDatabase(database: string): string {
  return `REVOKE TEMPORARY, CREATE ON DATABASE ${quoteIdentifier(database)} FROM PUBLIC;
REVOKE CREATE ON SCHEMA public FROM PUBLIC;`
}

/** Returns the statement that records a login as a gateway. The owner runs it, in the schema. */
export function setActorGateway({ name, gateway }: LoginStatement): string {
  return `SELECT set_actor_gateway(${quoteLiteral(name)}, ${gateway === 'names'});`
}

/** @param secret stored form of a password, never the password itself; null for a login without a password */
export function createLogin({ name, inherits }: LoginStatement, secret: string | null): string {
  const password = secret === null ? '' : ` PASSWORD ${quoteLiteral(secret)}`
  return `CREATE ROLE ${quoteIdentifier(name)} LOGIN ${inherits ? 'INHERIT' : 'NOINHERIT'}${password};`
}

export function grantToLogin({ name, roles, inherits }: LoginStatement, version: number): string {
  const options = version >= 16 ? ` WITH INHERIT ${inherits ? 'TRUE' : 'FALSE'}, SET TRUE` : ''
  return `GRANT ${roles.map(quoteIdentifier).join(', ')} TO ${quoteIdentifier(name)}${options};`
}

/** Grants the right to grant the roles, without the right to use them. Requires PostgreSQL 16. */
export function grantAdmin(login: string, roles: readonly string[]): string {
  return `GRANT ${roles.map(quoteIdentifier).join(', ')} TO ${quoteIdentifier(login)} WITH ADMIN TRUE, INHERIT FALSE, SET FALSE;`
}

/** Settings that change how PostgreSQL prints definitions. A login or a database may have set them. */
export const SPELLING_SETTINGS = `SET LOCAL quote_all_identifiers = off;
SET LOCAL standard_conforming_strings = on;
SET LOCAL intervalstyle = postgres;
SET LOCAL timezone = 'UTC';
SET LOCAL extra_float_digits = 1;`

/**
 * Switches to the auditor role. Superusers stay superusers, so that they can examine a schema closed to the auditor.
 */
export async function becomeAuditor(tx: Queryable, { loginIsSuperuser }: ServerEnvironment): Promise<void> {
  await tx.query(`SET LOCAL ROLE ${loginIsSuperuser ? 'NONE' : RUNTIME_ROLES.auditor}`)
}

export function becomeRole(role: string): string {
  return `SET LOCAL ROLE ${quoteIdentifier(role)}`
}

/** Sets the number of newest items that the checks of `schema/checks/` examine; undefined for all. */
export async function setExaminedItems(tx: Queryable, count: number | undefined): Promise<void> {
  await tx.query(`SELECT pg_catalog.set_config('symphony.examined_items', $1, true)`, [String(count ?? '')])
}

function quoteLiteral(text: string): string {
  return `'${text.replaceAll("'", "''")}'`
}
