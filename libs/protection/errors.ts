import { SymphonyError } from '../core/index.js'

/** Fields cannot be encrypted. Nothing was enqueued. */
export class FieldKeyMissingError extends SymphonyError {
  constructor(why: string) {
    super('FIELD_KEY_MISSING', why, {
      remedy: 'Give this process every master key that is in use (symphony vault status), and try again.',
    })
  }
}

/** The subject's key was destroyed, so its fields cannot be encrypted. Nothing was enqueued. */
export class SubjectErasedError extends SymphonyError {
  /** Path of the payload in the call: `payload`, or `instructions[3].payload`. */
  readonly argument: string

  constructor(argument: string) {
    super('SUBJECT_ERASED', `${argument}: the key of its subject was destroyed, and a destroyed key is not replaced`, {
      remedy: 'If the same person returns, use a new subject id.',
    })
    this.argument = argument
  }
}

/** The file or service returned no valid master keys. The error never contains their content. */
export class MasterKeysError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('MASTER_KEYS_UNREADABLE', message, {
      ...options,
      remedy: 'Run symphony vault keygen FILE to create a key file, or to add a key to it.',
    })
  }
}

/** The rails of a worker encrypt fields, and a master key in use is missing. */
export class MasterKeysMissingError extends SymphonyError {
  constructor(why: string) {
    super('VAULT_KEYS_MISSING', `Rails encrypt fields, and ${why}.`, {
      remedy: 'Give vault, or the file of --vault-keys, every master key that is in use (symphony vault status).',
    })
  }
}
