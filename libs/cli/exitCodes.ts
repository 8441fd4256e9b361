/** What the shell sees. Part of the interface: scripts branch on these, so a number never changes its meaning. */
export const EXIT = Object.freeze({
  ok: 0,
  failed: 1,
  usage: 2,
  unavailable: 3,
  interrupted: 130,
  terminated: 143,
})

export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

/** Shown by `symphony --help`. */
export const EXIT_CODES_HELP = `
Exit codes:
  0    done; for a check: everything holds; for start, worker, api and scheduler: stopped by SIGINT or SIGTERM
  1    the command failed, a check found something, or the database refused a right that a process needs
  2    the command line is wrong; nothing was done
  3    no database: it is not running, starting up or shutting down, not reachable, or not to be found
  130  interrupted (SIGINT) before the command was done
  143  terminated (SIGTERM) before the command was done`

/** Errors that mean "no database", by code: a script may start one and try again. */
export const UNAVAILABLE_CODES: ReadonlySet<string> = new Set([
  'EMBEDDED_NOT_RUNNING',
  'EMBEDDED_NO_POSTGRES',
  'CANNOT_CONNECT_NOW',
  'CONNECT_FAILED',
  'ECONNREFUSED',
  'ENOTFOUND',
  'INVALID_CATALOG_NAME',
])

/** Errors that mean "the settings are wrong", by code: nothing was done, and nothing will be until they are mended. */
export const USAGE_CODES: ReadonlySet<string> = new Set([
  'CONFIG_UNREADABLE',
  'FILE_UNREADABLE',
  'INVALID_RELAYER_OPTION',
  'MASTER_KEYS_UNREADABLE',
  'RAILS_UNREADABLE',
  'VAULT_KEYS_MISSING',
])
