export type EmbeddedErrorCode =
  /** An option is missing or of the wrong type. Thrown before anything is started. */
  | 'INVALID_ARGUMENT'
  /** An option is outside its bounds. */
  | 'ARGUMENT_OUT_OF_RANGE'
  /** No usable PostgreSQL was found on this machine. */
  | 'EMBEDDED_NO_POSTGRES'
  /** The cluster was created by another major version than the available binaries. */
  | 'EMBEDDED_VERSION_MISMATCH'
  /** The data folder cannot be used: not writable, of another user, not reachable for the server, or no cluster. */
  | 'EMBEDDED_DATA_DIR'
  /** The requested port is in use. */
  | 'EMBEDDED_PORT_TAKEN'
  /** initdb failed. */
  | 'EMBEDDED_INIT_FAILED'
  /** The server ended before it was ready. */
  | 'EMBEDDED_START_FAILED'
  /** The server was not ready in time. */
  | 'EMBEDDED_START_TIMEOUT'
  /** No server runs in this folder. */
  | 'EMBEDDED_NOT_RUNNING'
  /** The server was not started `detached`, so it belongs to a process, and `force` was not given. */
  | 'EMBEDDED_OWNED'
  /** The server did not end in time. */
  | 'EMBEDDED_STOP_TIMEOUT'

export class EmbeddedError extends Error {
  readonly code: EmbeddedErrorCode
  readonly remedy: string | undefined
  /** Last log lines of the server or initdb in this attempt; empty if there are none. */
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

/** True for a Node.js system error with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && 'code' in error && codes.includes(String(error.code))
}
