import { requiredId, requiredText, requiredUuid, REASON_LENGTH_MAX } from '../core/index.js'
import { call, qualify, type Queryable } from '../db/index.js'

/** Wrappers of the SQL functions of data keys, with the same names. Keys are always wrapped. */

export interface WrappedKey {
  readonly keyId: string
  readonly subject: string
  /** Id of the master key; null once the key is destroyed. */
  readonly masterKeyId: string | null
  readonly wrappedKey: string | null
  readonly destroyed: boolean
}

interface WrappedKeyRow {
  readonly subject: string
  readonly key_id: string
  readonly master_key_id: string | null
  readonly wrapped_key: string | null
  readonly destroyed: boolean
}

export interface OfferedKey {
  readonly subject: string
  readonly keyId: string
  readonly wrappedKey: string
}

/**
 * Returns the keys of the subjects. Stores the offered key for a subject without one. Runs as symphony_ingest in the
 * caller's transaction, so that a rollback removes new keys together with the payloads that need them.
 */
export async function ensureSubjectKeys(
  role: Queryable,
  offered: readonly OfferedKey[],
  masterKeyId: string,
): Promise<WrappedKey[]> {
  const rows = await call<WrappedKeyRow>(role, 'ensure_subject_keys', [
    offered.map(({ subject }) => subject),
    offered.map(({ keyId }) => keyId),
    offered.map(({ wrappedKey }) => wrappedKey),
    masterKeyId,
  ])
  return rows.map(toWrappedKey)
}

/** Reads data keys as symphony_executor. Unknown ids are missing from the result. */
export async function readSubjectKeys(role: Queryable, keyIds: readonly string[]): Promise<WrappedKey[]> {
  const ids = keyIds.map((id, index) => requiredUuid(`keyIds[${index}]`, id))
  return (await call<WrappedKeyRow>(role, 'read_subject_keys', [ids])).map(toWrappedKey)
}

export interface MasterKeyUse {
  readonly masterKeyId: string
  readonly keys: number
}

/** Returns the master keys in use. As symphony_executor or symphony_control. */
export async function masterKeysInUse(role: Queryable): Promise<MasterKeyUse[]> {
  const rows = await call<{ master_key_id: string; keys: bigint | string }>(role, 'master_keys_in_use')
  return rows.map(({ master_key_id: masterKeyId, keys }) => ({ masterKeyId, keys: Number(keys) }))
}

/**
 * Stores rewrapped keys as symphony_control. Skips keys that changed since they were read. Returns the number of stored
 * keys.
 */
export async function rewrapSubjectKeys(
  role: Queryable,
  rewrapped: readonly { readonly keyId: string; readonly wrappedKey: string }[],
  masterKeyId: string,
  previousMasterKeyId: string,
): Promise<number> {
  const rows = await call<{ rewrap_subject_keys: number }>(role, 'rewrap_subject_keys', [
    rewrapped.map(({ keyId }) => keyId),
    rewrapped.map(({ wrappedKey }) => wrappedKey),
    masterKeyId,
    previousMasterKeyId,
  ])
  return rows[0]?.rewrap_subject_keys ?? 0
}

/** Result of destroying a key. UNKNOWN: no such subject; it may be misspelt. */
export type KeyDestruction = 'DESTROYED' | 'ALREADY_DESTROYED' | 'UNKNOWN'

/** Destroys a key for ever, as symphony_control. */
export async function destroySubjectKey(role: Queryable, subject: string, reason: string): Promise<KeyDestruction> {
  const rows = await call<{ destroy_subject_key: KeyDestruction }>(role, 'destroy_subject_key', [
    requiredId('subject', subject),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return rows[0]?.destroy_subject_key ?? 'UNKNOWN'
}

/** Returns data keys that are wrapped under another master key than this one, in order of id. As symphony_control. */
export async function readKeysToRewrap(
  role: Queryable,
  masterKeyId: string,
  after: string | undefined,
  limit: number,
): Promise<WrappedKey[]> {
  const { rows } = await role.query<WrappedKeyRow>(
    `SELECT subject, key_id, master_key_id, wrapped_key, false AS destroyed FROM ${qualify(role, 'subject_keys')}
     WHERE destroyed_at IS NULL AND master_key_id <> $1 AND ($2::uuid IS NULL OR key_id > $2::uuid)
     ORDER BY key_id LIMIT $3`,
    [masterKeyId, after ?? null, limit],
  )
  return rows.map(toWrappedKey)
}

export interface SubjectKeyCounts {
  readonly live: number
  readonly destroyed: number
}

/** Counts data keys, as symphony_control or symphony_auditor. */
export async function countSubjectKeys(role: Queryable): Promise<SubjectKeyCounts> {
  const { rows } = await role.query<{ live: bigint | string; destroyed: bigint | string }>(
    `SELECT count(*) FILTER (WHERE destroyed_at IS NULL) AS live, count(destroyed_at) AS destroyed
     FROM ${qualify(role, 'subject_keys')}`,
  )
  return { live: Number(rows[0]?.live ?? 0), destroyed: Number(rows[0]?.destroyed ?? 0) }
}

function toWrappedKey(row: WrappedKeyRow): WrappedKey {
  return {
    keyId: row.key_id,
    subject: row.subject,
    masterKeyId: row.master_key_id,
    wrappedKey: row.wrapped_key,
    destroyed: row.destroyed,
  }
}
