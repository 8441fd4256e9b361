import { quoteIdentifier, type Queryable } from '../db/index.js'
import type { LoginStatement } from './logins.js'
import type { Release } from './release.js'
import { ALL_ROLES, OWNER_ROLE, RUNTIME_ROLES } from './roles.js'

/* Read-only queries of the installer and the doctor about a server. */

/** Rights of the deploying login, and the state of its target. */
export interface ServerFacts {
  readonly login: string
  readonly database: string
  /** Major version: 15, 16, 17, 18. */
  readonly version: number
  readonly isSuperuser: boolean
  readonly isStandby: boolean
  readonly mayCreateRoles: boolean
  readonly mayCreateSchemas: boolean
  readonly ownsDatabase: boolean
  readonly missingRoles: readonly string[]
  /** True if the login can switch to the owner role now. */
  readonly mayActAsOwner: boolean
  /** Existing roles of ours that the login may not grant. */
  readonly ungrantableRoles: readonly string[]
  /** Owner of the schema; undefined if it does not exist. */
  readonly schemaOwner: string | undefined
  readonly ownsSchema: boolean
  /** Requested logins that exist. */
  readonly existingLogins: readonly string[]
}

export async function readServerFacts(tx: Queryable, schema: string, logins: readonly string[]): Promise<ServerFacts> {
  const { rows } = await tx.query<ServerFacts & { schemaOwner: string | null }>(SERVER_FACTS, [
    schema,
    ALL_ROLES,
    OWNER_ROLE,
    logins,
  ])
  const facts = rows[0]!
  return { ...facts, schemaOwner: facts.schemaOwner ?? undefined }
}

/**
 * Query of the `ServerFacts`. Since PostgreSQL 16 a member of a role may lack the right to SET ROLE, and CREATEROLE
 * covers only roles that the login administers.
 */
const SERVER_FACTS = `
  SELECT me.rolname::text AS "login", d.datname::text AS "database", v.major AS "version",
    me.rolsuper AS "isSuperuser", pg_catalog.pg_is_in_recovery() AS "isStandby",
    me.rolsuper OR me.rolcreaterole AS "mayCreateRoles",
    pg_catalog.has_database_privilege(me.oid, d.oid, 'CREATE') AS "mayCreateSchemas",
    pg_catalog.pg_has_role(me.oid, d.datdba, 'USAGE') AS "ownsDatabase",
    ARRAY(SELECT name FROM pg_catalog.unnest($2::text[]) AS name
      WHERE pg_catalog.to_regrole(pg_catalog.quote_ident(name)) IS NULL) AS "missingRoles",
    COALESCE(pg_catalog.pg_has_role(me.oid, o.oid, CASE WHEN v.major >= 16 THEN 'SET' ELSE 'MEMBER' END), me.rolsuper)
      AS "mayActAsOwner",
    ARRAY(SELECT r.rolname::text FROM pg_catalog.pg_roles r WHERE r.rolname = ANY ($2) AND NOT CASE
      WHEN v.major < 16 THEN me.rolsuper OR me.rolcreaterole
      ELSE pg_catalog.pg_has_role(me.oid, r.oid, 'MEMBER WITH ADMIN OPTION') END) AS "ungrantableRoles",
    pg_catalog.pg_get_userbyid(n.nspowner)::text AS "schemaOwner",
    COALESCE(pg_catalog.pg_has_role(me.oid, n.nspowner, 'USAGE'), false) AS "ownsSchema",
    ARRAY(SELECT name FROM pg_catalog.unnest($4::text[]) AS name
      WHERE pg_catalog.to_regrole(pg_catalog.quote_ident(name)) IS NOT NULL) AS "existingLogins"
  FROM pg_catalog.pg_roles me
  JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
  CROSS JOIN (SELECT pg_catalog.current_setting('server_version_num')::int / 10000 AS major) v
  LEFT JOIN pg_catalog.pg_roles o ON o.rolname = $3
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1
  WHERE me.rolname = session_user`

export interface NamedObject {
  readonly type: string
  readonly identity: string
  readonly owner: string
  readonly isLegacy: boolean
}

/** Reads the objects of the schema that do not belong to our owner, and those of Symphony's earlier design. */
export async function readForeignObjects(tx: Queryable, schema: string): Promise<readonly NamedObject[]> {
  const { rows } = await tx.query<NamedObject>(FOREIGN_OBJECTS, [schema, OWNER_ROLE])
  return rows
}

/**
 * Query of foreign objects. Omits row types, array types and sequences that a column owns, because they belong to
 * another object.
 */
const FOREIGN_OBJECTS = `
  SELECT shown.type, shown.identity, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, o.is_legacy AS "isLegacy"
  FROM pg_catalog.pg_namespace n
  CROSS JOIN LATERAL (
    SELECT 'pg_catalog.pg_class'::regclass AS class, c.oid, c.relowner AS owner,
      c.relname = 'payment_outbox' OR c.relname = 'supervisor_outbox_status' AND EXISTS (
        SELECT 1 FROM pg_catalog.pg_class l WHERE l.relnamespace = n.oid AND l.relname = 'payment_outbox'
      ) AS is_legacy
    FROM pg_catalog.pg_class c
    WHERE c.relnamespace = n.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') AND NOT EXISTS (
      SELECT 1 FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
        AND d.refclassid = 'pg_catalog.pg_class'::regclass)
    UNION ALL
    SELECT 'pg_catalog.pg_proc'::regclass, p.oid, p.proowner, false FROM pg_catalog.pg_proc p WHERE p.pronamespace = n.oid
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass, t.oid, t.typowner, t.typname = 'outbox_status'
    FROM pg_catalog.pg_type t WHERE t.typnamespace = n.oid AND t.typrelid = 0 AND t.typcategory <> 'A'
  ) o
  CROSS JOIN LATERAL pg_catalog.pg_identify_object(o.class, o.oid, 0) AS shown
  WHERE n.nspname = $1 AND (o.is_legacy OR o.owner IS DISTINCT FROM pg_catalog.to_regrole($2)::oid)
  ORDER BY shown.type, shown.identity`

/** Current deployment: its release, and the checksum of each file. */
interface RecordedDeployment extends Release {
  readonly checksums: ReadonlyMap<string, string>
}

type DeploymentRecord = RecordedDeployment | 'none' | 'unreadable'

export async function readDeploymentRecord(tx: Queryable, schema: string): Promise<DeploymentRecord> {
  const { rows: tables } = await tx.query<{ readable: boolean }>(RECORD_IS_READABLE, [schema])
  if (tables[0] === undefined) return 'none'
  if (!tables[0].readable) return 'unreadable'
  const { rows } = await tx.query<{ file: string; sha256: string; schema_level: number; release: string }>(`
    SELECT d.file, d.sha256, d.schema_level, d.release FROM ${quoteIdentifier(schema)}.symphony_deployments d
    WHERE d.deployment_no = (SELECT max(deployment_no) FROM ${quoteIdentifier(schema)}.symphony_deployments)`)
  const [first] = rows
  if (first === undefined) return 'none'
  return {
    version: first.release,
    schemaLevel: first.schema_level,
    checksums: new Map(rows.map(({ file, sha256 }) => [file, sha256])),
  }
}

export interface DeployedFile {
  readonly deployment: number
  readonly file: string
  readonly sha256: string
  readonly schemaLevel: number
  readonly release: string
  readonly deployedBy: string
  /** Microseconds since 1970. */
  readonly deployedAt: string
}

export async function readDeploymentHistory(tx: Queryable, schema: string): Promise<readonly DeployedFile[]> {
  const { rows } = await tx.query<DeployedFile>(`
    SELECT d.deployment_no AS deployment, d.file, d.sha256, d.schema_level AS "schemaLevel", d.release,
      d.deployed_by AS "deployedBy", (extract(epoch FROM d.deployed_at) * 1000000)::bigint::text AS "deployedAt"
    FROM ${quoteIdentifier(schema)}.symphony_deployments d ORDER BY d.deployment_no, d.file COLLATE "C"`)
  return rows
}

const RECORD_IS_READABLE = `
  SELECT pg_catalog.has_schema_privilege(n.oid, 'USAGE') AND pg_catalog.has_table_privilege(c.oid, 'SELECT') AS readable
  FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = $1 AND c.relname = 'symphony_deployments'`

export async function mayActAsOwner(tx: Queryable, schema: string): Promise<boolean> {
  return (await readServerFacts(tx, schema, [])).mayActAsOwner
}

/**
 * Returns whether PUBLIC lacks TEMP and CREATE on the database and CREATE on the schema public. Checked after a
 * REVOKE, because PostgreSQL only warns, and revokes nothing, if the login is not the owner.
 */
export async function isDatabaseDedicated(tx: Queryable): Promise<boolean> {
  const { rows } = await tx.query<{ dedicated: boolean }>(`
    SELECT NOT EXISTS (
      SELECT 1 FROM pg_catalog.pg_database d,
        pg_catalog.aclexplode(COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))) a
      WHERE d.datname = pg_catalog.current_database() AND a.grantee = 0 AND a.privilege_type IN ('TEMPORARY', 'CREATE')
    ) AND NOT EXISTS (
      SELECT 1 FROM pg_catalog.pg_namespace n,
        pg_catalog.aclexplode(COALESCE(n.nspacl, pg_catalog.acldefault('n', n.nspowner))) a
      WHERE n.nspname = 'public' AND a.grantee = 0 AND a.privilege_type = 'CREATE'
    ) AS dedicated`)
  return rows[0]!.dedicated
}

interface LoginState {
  readonly canLogIn: boolean
  readonly isMember: boolean
  readonly inherits: boolean
}

export async function readLoginState(tx: Queryable, { name, roles }: LoginStatement): Promise<LoginState> {
  const { rows } = await tx.query<LoginState>(
    `SELECT r.rolcanlogin AS "canLogIn",
       pg_catalog.bool_and(pg_catalog.pg_has_role(r.oid, given.role, 'MEMBER')) AS "isMember",
       pg_catalog.bool_or(pg_catalog.pg_has_role(r.oid, given.role, 'USAGE')) AS "inherits"
     FROM pg_catalog.pg_roles r CROSS JOIN pg_catalog.unnest($2::text[]) AS given(role)
     WHERE r.rolname = $1 GROUP BY r.rolcanlogin`,
    [name, roles],
  )
  return rows[0]!
}

/** Properties of the server and the database that the doctor checks. */
export interface ServerEnvironment {
  readonly version: number
  readonly login: string
  readonly loginIsSuperuser: boolean
  readonly mayActAsAuditor: boolean
  readonly isDeployed: boolean
  /**
   * Owner of the schema if our owner role owns none of its tables, because a dump was restored before the roles
   * existed; else null.
   */
  readonly restoredAs: string | null
  readonly auditorMayUseSchema: boolean
  readonly encoding: string
  readonly fsync: string
  readonly fullPageWrites: string
  readonly isStandby: boolean
  /** Privileges of PUBLIC in this database: TEMPORARY, CREATE. */
  readonly publicPrivileges: readonly string[]
  /** Roles that could grant themselves the owner role. */
  readonly ownerGranters: readonly string[]
  /** Logins that may write every table of the server. */
  readonly dataWriters: readonly string[]
}

export async function readServerEnvironment(tx: Queryable, schema: string): Promise<ServerEnvironment> {
  const { rows } = await tx.query<ServerEnvironment>(SERVER_ENVIRONMENT, [schema, OWNER_ROLE, RUNTIME_ROLES.auditor])
  return rows[0]!
}

const SERVER_ENVIRONMENT = `
  SELECT v.major AS "version", me.rolname::text AS "login", me.rolsuper AS "loginIsSuperuser",
    COALESCE(pg_catalog.pg_has_role(me.oid, a.oid, CASE WHEN v.major >= 16 THEN 'SET' ELSE 'MEMBER' END), false)
      AS "mayActAsAuditor",
    EXISTS (
      SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid
        AND c.relname IN ('payment_outbox_pending', 'payment_outbox_attempts', 'symphony_deployments')) AS "isDeployed",
    CASE WHEN NOT EXISTS (SELECT 1 FROM pg_catalog.pg_class c WHERE c.relnamespace = n.oid AND c.relowner = o.oid)
      THEN pg_catalog.pg_get_userbyid(n.nspowner)::text END AS "restoredAs",
    COALESCE(pg_catalog.has_schema_privilege(a.oid, n.oid, 'USAGE'), false) AS "auditorMayUseSchema",
    pg_catalog.current_setting('server_encoding') AS "encoding",
    pg_catalog.current_setting('fsync') AS "fsync",
    pg_catalog.current_setting('full_page_writes') AS "fullPageWrites",
    pg_catalog.pg_is_in_recovery() AS "isStandby",
    ARRAY(
      SELECT x.privilege_type::text FROM pg_catalog.aclexplode(COALESCE(d.datacl, pg_catalog.acldefault('d', d.datdba))) x
      WHERE x.grantee = 0 AND x.privilege_type IN ('TEMPORARY', 'CREATE') ORDER BY 1) AS "publicPrivileges",
    ARRAY(
      SELECT DISTINCT m.member::regrole::text FROM pg_catalog.pg_auth_members m
      WHERE m.roleid = o.oid AND m.admin_option ORDER BY 1) AS "ownerGranters",
    ARRAY(
      SELECT w.rolname::text FROM pg_catalog.pg_roles w
      WHERE w.rolcanlogin AND NOT w.rolsuper AND pg_catalog.pg_has_role(w.oid, 'pg_write_all_data', 'USAGE')
      ORDER BY 1) AS "dataWriters"
  FROM pg_catalog.pg_roles me
  JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()
  CROSS JOIN (SELECT pg_catalog.current_setting('server_version_num')::int / 10000 AS major) v
  LEFT JOIN pg_catalog.pg_roles o ON o.rolname = $2
  LEFT JOIN pg_catalog.pg_roles a ON a.rolname = $3
  LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = $1
  WHERE me.rolname = session_user`

/**
 * Finds a role that may use the schema: the current one, or one of ours that the login may switch to. Returns undefined
 * if there is none. Without USAGE, all objects of the schema would seem missing.
 */
export async function findReadingRole(tx: Queryable, schema: string): Promise<string | undefined> {
  const { rows } = await tx.query<{ role: string }>(READING_ROLE, [schema, Object.values(RUNTIME_ROLES)])
  return rows[0]?.role
}

const READING_ROLE = `
  SELECT r.rolname::text AS role
  FROM pg_catalog.pg_roles r
  JOIN pg_catalog.pg_namespace n ON n.nspname = $1 AND pg_catalog.has_schema_privilege(r.oid, n.oid, 'USAGE')
  WHERE r.rolname = current_user OR (r.rolname = ANY ($2) AND pg_catalog.pg_has_role(session_user, r.oid,
    CASE WHEN pg_catalog.current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END))
  ORDER BY r.rolname <> current_user LIMIT 1`
