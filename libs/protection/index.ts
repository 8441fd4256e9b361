/**
 * Fields that nobody but the rail may read. A rail declares classes for the fields of its payloads (`libs/rails`); this room does
 * what two of them ask: it encrypts, and it lets what was encrypted be forgotten.
 *
 * | who | does what | with |
 * | --- | --- | --- |
 * | a producer | `vault.encrypt`, before the enqueue: the database never sees the plaintext | the current master key |
 * | a worker | opens, just before a rail is called or asked (`protectedRails`) | every master key in use |
 * | an operator | rewraps data keys under another master key; destroys a subject's | those, or none |
 *
 * Each subject has one data key, which the database keeps wrapped under a master key that it never gets (`subject_keys`). Nothing
 * here keeps a data key for longer than a call. A crash leaves at worst a key that has encrypted nothing yet.
 */
export {
  countSubjectKeys,
  destroySubjectKey,
  ensureSubjectKeys,
  masterKeysInUse,
  readSubjectKeys,
  rewrapSubjectKeys,
} from './db.js'
export type { KeyDestruction, MasterKeyUse, OfferedKey, SubjectKeyCounts, WrappedKey } from './db.js'
export { FieldKeyMissingError, MasterKeysError, SubjectErasedError } from './errors.js'
export { encryptsFields, FieldVault, protectedRails } from './FieldVault.js'
export type { ProtectedRail, EncryptableInstruction } from './FieldVault.js'
export { KeyRing, readKeyRing, SECRET_BYTES } from './MasterKeys.js'
export type { MasterKey, MasterKeys } from './MasterKeys.js'
export { rewrapKeys } from './rewrapKeys.js'
export type { RewrapResult } from './rewrapKeys.js'
