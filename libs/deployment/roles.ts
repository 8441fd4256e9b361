/** Role that owns every object. It cannot log in. The installer switches to it. */
export const OWNER_ROLE = 'symphony_owner'

/** Roles that logins can have, by their name in `--create-login`. */
export const RUNTIME_ROLES = Object.freeze({
  ingest: 'symphony_ingest',
  executor: 'symphony_executor',
  control: 'symphony_control',
  readonly: 'symphony_readonly',
  auditor: 'symphony_auditor',
  auth: 'symphony_auth',
})

export type RuntimeRole = keyof typeof RUNTIME_ROLES

/** Roles that `schema/v1/002_roles.sql` creates. */
export const ALL_ROLES: readonly string[] = [OWNER_ROLE, ...Object.values(RUNTIME_ROLES)]

/** Roles of the word `api`: those of a process that serves the whole HTTP API. */
export const API_ROLES: readonly RuntimeRole[] = ['ingest', 'readonly', 'auditor', 'control', 'auth']

export function isRuntimeRole(word: string): word is RuntimeRole {
  return Object.hasOwn(RUNTIME_ROLES, word)
}
