/**
 * Encrypted fields, which only the rail may read. A rail declares classes for the fields of its payloads
 * (`libs/rails`). This module encrypts fields, and destroys keys to make a subject's fields unreadable.
 *
 * | actor | action | keys |
 * | --- | --- | --- |
 * | a producer | `vault.encrypt`, before the enqueue: the database never sees the plaintext | the current master key |
 * | a worker | decrypts, just before a call or an inquiry (`protectedRails`) | every master key in use |
 * | an operator | `Vault`: rewraps data keys under another master key, destroys the key of a subject | every master key in use to rewrap, none to destroy |
 *
 * Each subject has one data key. The table `subject_keys` stores it wrapped under a master key, which the database
 * never has. This module keeps no data key longer than a call. A crash leaves at most an unused key.
 */
export { ensureSubjectKeys, masterKeysInUse, readSubjectKeys, rewrapSubjectKeys } from './db.js'
export type { MasterKeyUse, OfferedKey, WrappedKey } from './db.js'
export { FieldKeyMissingError, MasterKeysError, SubjectErasedError } from './errors.js'
export { FieldVault, protectedRails, requireMasterKeys } from './FieldVault.js'
export type { ProtectedRail, EncryptableInstruction } from './FieldVault.js'
export { KeyRing, readKeyRing, SECRET_BYTES } from './MasterKeys.js'
export type { MasterKey, MasterKeys } from './MasterKeys.js'
export { Vault } from './Vault.js'
export type { VaultStatus } from './Vault.js'
