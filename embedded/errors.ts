export type EmbeddedErrorCode =
  /** An option that is missing or of the wrong kind. Thrown before anything is started. */
  | 'INVALID_ARGUMENT'
  /** An option of the right kind outside its bounds. */
  | 'ARGUMENT_OUT_OF_RANGE'
  /** No PostgreSQL that this machine can run was found. */
  | 'EMBEDDED_NO_POSTGRES'
  /** The folder was made by another major version than the binaries at hand. */
  | 'EMBEDDED_VERSION_MISMATCH'
  /** The data folder cannot be used: not writable, not ours, out of the server's reach, or not a cluster. */
  | 'EMBEDDED_DATA_DIR'
  /** The port asked for is in use. */
  | 'EMBEDDED_PORT_TAKEN'
  /** initdb failed. */
  | 'EMBEDDED_INIT_FAILED'
  /** The server ended before it was ready. */
  | 'EMBEDDED_START_FAILED'
  /** The server was not ready in time. */
  | 'EMBEDDED_START_TIMEOUT'
  /** No server runs in this folder. */
  | 'EMBEDDED_NOT_RUNNING'
  /** The server in this folder belongs to a living process, and stopping it was not forced. */
  | 'EMBEDDED_OWNED'
  /** The server did not end in time. */
  | 'EMBEDDED_STOP_TIMEOUT'

export class EmbeddedError extends Error {
  readonly code: EmbeddedErrorCode
  /** Instruction for the person who reads the error. */
  readonly remedy: string | undefined
  /** The last lines the server or initdb wrote for this attempt; empty when nothing was written. */
  readonly logTail: string

  constructor(
    code: EmbeddedErrorCode,
    message: string,
    {
      logTail = '',
      cause,
      remedy,
    }: { readonly cause?: unknown; readonly remedy?: string; readonly logTail?: string } = {},
  ) {
    super(logTail === '' ? message : `${message}\n${logTail}`, cause === undefined ? undefined : { cause })
    this.name = 'EmbeddedError'
    this.code = code
    this.remedy = remedy
    this.logTail = logTail
  }
}

/** Whether a thrown value is a Node.js system error with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}
