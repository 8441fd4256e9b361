import type { ErrorCode, PostgresErrorCode } from '../core/index.js'
import type { Disposition } from './errors.js'

/** SQLSTATEs that our SQL raises. A test compares this list with `schema/` and the documentation. */
export const RAISED_SQLSTATES: ReadonlyMap<string, ErrorCode> = new Map([
  ['P0001', 'APPEND_ONLY'],
  ['P7001', 'ALREADY_TERMINAL'],
  ['P7002', 'LEASE_LOST'],
  ['P7003', 'INVALID_COMPLETION_STATE'],
  ['P7004', 'IDEMPOTENCY_CONFLICT'],
  ['P7006', 'HELD'],
  ['P7007', 'APPROVAL_REQUIRED'],
  ['P7008', 'RETRY_CEILING'],
  ['P7009', 'DISPATCH_FROZEN'],
  ['P7010', 'INBOX_TRANSITION'],
  ['P7011', 'INBOX_UNKNOWN'],
  ['P7012', 'UNKNOWN_JOB'],
  ['P7013', 'NOT_CANCELLABLE'],
  ['P7014', 'KEY_REUSED'],
  ['P7015', 'RETURN_EXCEEDS_PAYMENT'],
  ['P7016', 'ACTOR_UNVERIFIED'],
  ['P7017', 'NOT_REPLACEABLE'],
  ['P7018', 'UPLOAD_INCOMPLETE'],
  ['P7019', 'AMOUNT_UNREADABLE'],
  ['22023', 'INVALID_PARAMETER'],
])

/**
 * Recognises the refusal of an append-only table by its fixed message and its table, because every plain RAISE
 * EXCEPTION has P0001. Only this function and `isReplacedFunctionError` read a message.
 */
export function isAppendOnlyError(message: string, table: string | undefined): boolean {
  return ['UPDATE', 'DELETE', 'TRUNCATE'].some(
    (operation) => message === `append-only: ${operation} of table ${table} is refused`,
  )
}

/**
 * Recognises a call of a function that a deployment has replaced. Several routines raise this error, so only its
 * message identifies it. PostgreSQL never translates internal errors.
 */
export function isReplacedFunctionError(sqlstate: string, message: string): boolean {
  return sqlstate === 'XX000' && /^cache lookup failed for function \d+$/.test(message)
}

/** SQLSTATEs that this module handles itself. */
export const SQLSTATE = {
  protocolViolation: '08P01',
  featureNotSupported: '0A000',
  invalidParameterValue: '22023',
  readOnlyServer: '25006',
  idleInTransactionTimeout: '25P03',
  unknownStatementName: '26000',
  unknownSavepoint: '3B001',
  insufficientPrivilege: '42501',
  notInPrerequisiteState: '55000',
  idleSessionTimeout: '57P05',
} as const

interface PostgresState {
  readonly condition: Lowercase<PostgresErrorCode>
  readonly disposition: Disposition
}

/**
 * Dispositions of PostgreSQL's own SQLSTATEs. A two-character key applies to the rest of its class; an unlisted state
 * is `fatal`. `unknown` means that the server disappeared during the statement. `dispositionOf` turns `unknown` into
 * `retry` if nothing can have been committed yet.
 */
export const SQLSTATE_DISPOSITIONS: ReadonlyMap<string, PostgresState> = new Map([
  // 08: the connection. PgBouncer also reports 08P01 for a server that died during a statement.
  state('08', 'connection_exception', 'unknown'),
  state('08000', 'connection_exception', 'unknown'),
  state('08001', 'sqlclient_unable_to_establish_sqlconnection', 'retry'),
  state('08003', 'connection_does_not_exist', 'unknown'),
  state('08004', 'sqlserver_rejected_establishment_of_sqlconnection', 'retry'),
  state('08006', 'connection_failure', 'unknown'),
  state('08007', 'transaction_resolution_unknown', 'unknown'),
  state('08P01', 'protocol_violation', 'unknown'),

  // 22 and 23: the request is invalid and stays invalid.
  state('22001', 'string_data_right_truncation', 'fatal'),
  state('22003', 'numeric_value_out_of_range', 'fatal'),
  state('22007', 'invalid_datetime_format', 'fatal'),
  state('22008', 'datetime_field_overflow', 'fatal'),
  state('22012', 'division_by_zero', 'fatal'),
  state('22021', 'character_not_in_repertoire', 'fatal'),
  state('22P02', 'invalid_text_representation', 'fatal'),
  state('22P05', 'untranslatable_character', 'fatal'),
  state('23502', 'not_null_violation', 'fatal'),
  state('23503', 'foreign_key_violation', 'fatal'),
  state('23505', 'unique_violation', 'fatal'),
  state('23514', 'check_violation', 'fatal'),
  state('23P01', 'exclusion_violation', 'fatal'),

  // 25: the state of the transaction. A session that was idle for too long ended before it read our statement. A
  // read-only server is a standby, and the next connection may reach the primary.
  state('25001', 'active_sql_transaction', 'fatal'),
  state('25006', 'read_only_sql_transaction', 'retry'),
  state('25P01', 'no_active_sql_transaction', 'fatal'),
  state('25P02', 'in_failed_sql_transaction', 'fatal'),
  state('25P03', 'idle_in_transaction_session_timeout', 'retry'),
  state('25P04', 'transaction_timeout', 'unknown'),

  // 26, 0A: a prepared statement that the server no longer has or may no longer use.
  state('26000', 'invalid_sql_statement_name', 'retry'),
  state('0A000', 'feature_not_supported', 'fatal'),

  // 28, 3D, 3F: authentication, and the name of the database or schema.
  state('28000', 'invalid_authorization_specification', 'fatal'),
  state('28P01', 'invalid_password', 'fatal'),
  state('3D000', 'invalid_catalog_name', 'fatal'),
  state('3F000', 'invalid_schema_name', 'fatal'),

  // 40: the server rolled back the transaction, mostly in favour of another one.
  state('40', 'transaction_rollback', 'retry'),
  state('40000', 'transaction_rollback', 'retry'),
  state('40001', 'serialization_failure', 'retry'),
  state('40002', 'transaction_integrity_constraint_violation', 'fatal'),
  state('40003', 'statement_completion_unknown', 'unknown'),
  state('40P01', 'deadlock_detected', 'retry'),

  // 42: the statement does not fit the schema, or the role has no right to it.
  state('42501', 'insufficient_privilege', 'fatal'),
  state('42601', 'syntax_error', 'fatal'),
  state('42702', 'ambiguous_column', 'fatal'),
  state('42703', 'undefined_column', 'fatal'),
  state('42704', 'undefined_object', 'fatal'),
  state('42804', 'datatype_mismatch', 'fatal'),
  state('42883', 'undefined_function', 'fatal'),
  state('42P01', 'undefined_table', 'fatal'),
  state('42P05', 'duplicate_prepared_statement', 'fatal'),
  state('42P18', 'indeterminate_datatype', 'fatal'),

  // 53, 54: the server lacks a resource. A shortage is temporary; a limit built into PostgreSQL is not.
  state('53', 'insufficient_resources', 'retry'),
  state('53000', 'insufficient_resources', 'retry'),
  state('53100', 'disk_full', 'retry'),
  state('53200', 'out_of_memory', 'retry'),
  state('53300', 'too_many_connections', 'retry'),
  state('53400', 'configuration_limit_exceeded', 'retry'),
  state('54000', 'program_limit_exceeded', 'fatal'),
  state('54001', 'statement_too_complex', 'fatal'),

  // 55: another session uses the object.
  state('55000', 'object_not_in_prerequisite_state', 'fatal'),
  state('55006', 'object_in_use', 'retry'),
  state('55P03', 'lock_not_available', 'retry'),

  // 57: an operator or a timeout intervened. A cancelled statement was rolled back; a terminated session may have
  // committed just before.
  state('57', 'operator_intervention', 'unknown'),
  state('57000', 'operator_intervention', 'unknown'),
  state('57014', 'query_canceled', 'retry'),
  state('57P01', 'admin_shutdown', 'unknown'),
  state('57P02', 'crash_shutdown', 'unknown'),
  state('57P03', 'cannot_connect_now', 'retry'),
  state('57P04', 'database_dropped', 'fatal'),
  state('57P05', 'idle_session_timeout', 'retry'),

  // 58, XX: the server itself is damaged. An operator must check it.
  state('58000', 'system_error', 'fatal'),
  state('58030', 'io_error', 'fatal'),
  state('58P01', 'undefined_file', 'fatal'),
  state('XX000', 'internal_error', 'fatal'),
  state('XX001', 'data_corrupted', 'fatal'),
  state('XX002', 'index_corrupted', 'fatal'),
])

const DEPLOY =
  'Run symphony doctor, which lists the differences, and symphony deploy of this release, which corrects them.'

/** Remedies for the states that a command or process may meet at its start. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['25006', 'Point DATABASE_URL at the primary: this server is a standby, or its transactions are read-only.'],
  [
    '28000',
    'Check the login in DATABASE_URL; pg_hba.conf of the server decides which login may connect from this host.',
  ],
  ['28P01', 'Check the user name and the password in DATABASE_URL.'],
  ['3D000', 'Correct the name of the database in DATABASE_URL, or create it: CREATE DATABASE.'],
  [
    '3F000',
    'Run symphony deploy (in code: deploy of symphony-pg/admin) on this database. If its schema has another name, set schema.',
  ],
  [
    '42501',
    'Use a login with the right role (symphony deploy --create-login NAME=ROLE), or repeat symphony deploy, which grants each role its rights.',
  ],
  ['42703', DEPLOY],
  ['42883', DEPLOY],
  ['42P01', DEPLOY],
  ['53100', 'Free disk space on the server.'],
  ['53300', 'Close other connections, or raise max_connections of the server.'],
  ['57P03', 'Try again in a moment: the server is starting or stopping.'],
])

export function remedyForState(sqlstate: string): string | undefined {
  return REMEDIES.get(sqlstate)
}

export function classifySqlstate(sqlstate: string): PostgresState | undefined {
  return SQLSTATE_DISPOSITIONS.get(sqlstate) ?? SQLSTATE_DISPOSITIONS.get(sqlstate.slice(0, 2))
}

function state(
  sqlstate: string,
  condition: PostgresState['condition'],
  disposition: Disposition,
): [string, PostgresState] {
  return [sqlstate, { condition, disposition }]
}
