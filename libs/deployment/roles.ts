/** The role that owns every object. Nobody logs in as it; the installer borrows it. */
export const OWNER_ROLE = 'symphony_owner'

/** What a login may be made a member of, by the word that `--create-login` takes. */
export const RUNTIME_ROLES = Object.freeze({
  ingest: 'symphony_ingest',
  executor: 'symphony_executor',
  control: 'symphony_control',
  readonly: 'symphony_readonly',
  auditor: 'symphony_auditor',
  auth: 'symphony_auth',
})

export type RuntimeRole = keyof typeof RUNTIME_ROLES

/** Everything `schema/v1/002_roles.sql` creates. */
export const ALL_ROLES: readonly string[] = [OWNER_ROLE, ...Object.values(RUNTIME_ROLES)]

/** What a process needs that serves the whole HTTP API: `api`, said in one word. */
export const API_ROLES: readonly RuntimeRole[] = ['ingest', 'readonly', 'auditor', 'control', 'auth']

export function isRuntimeRole(word: string): word is RuntimeRole {
  return Object.hasOwn(RUNTIME_ROLES, word)
}
