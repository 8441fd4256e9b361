import { readFileSync } from 'node:fs'
import { isIPv4 } from 'node:net'
import { checkServerIdentity, type ConnectionOptions } from 'node:tls'
import { InvalidArgumentError, kindOf } from '../core/index.js'
import { TlsError } from './errors.js'

export interface ConnectionUrl {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  /** Database name. If the URL has none, the user name, as with libpq. */
  readonly database: string
  readonly parameters: ReadonlyMap<UrlParameter, string>
}

const URL_PARAMETERS = [
  'application_name',
  'host',
  'password',
  'port',
  'sslcert',
  'sslkey',
  'sslmode',
  'sslnegotiation',
  'sslrootcert',
  'user',
] as const

type UrlParameter = (typeof URL_PARAMETERS)[number]

const PORT_DEFAULT = 5432

/**
 * Parses a connection URL. The driver's own parser is not used: it lets the URL override options of the code
 * (`?statement_timeout=0`), accepts unknown parameters, and reads `sslmode` differently. Messages never quote the URL,
 * because it holds a password.
 */
export function parseConnectionUrl(argument: string, text: unknown): ConnectionUrl {
  const url = parse(argument, text)
  const parameters = readParameters(argument, url)
  const host = parameters.get('host') ?? decode(argument, url.hostname).replace(/^\[(.+)\]$/, '$1')
  if (host.includes(',')) throw new InvalidArgumentError(argument, 'expected one host, got a list of them')
  const port = Number(parameters.get('port') ?? (url.port === '' ? PORT_DEFAULT : url.port))
  if (!Number.isInteger(port) || port < 1 || port > 65_535) {
    throw new InvalidArgumentError(argument, 'expected a port from 1 to 65535')
  }
  const user = parameters.get('user') ?? nonEmpty(decode(argument, url.username))
  // Without a user, the driver would use the operating system's user name.
  if (user === undefined) throw new InvalidArgumentError(argument, 'expected a user to log in as')
  return {
    host: host === '' ? 'localhost' : host,
    port,
    user,
    password: parameters.get('password') ?? nonEmpty(decode(argument, url.password)),
    database: nonEmpty(decode(argument, url.pathname.slice(1))) ?? user,
    parameters,
  }
}

function parse(argument: string, text: unknown): URL {
  if (typeof text !== 'string' || !/^postgres(ql)?:\/\//.test(text)) {
    const got = typeof text === 'string' ? '' : `, got ${kindOf(text)}`
    throw new InvalidArgumentError(
      argument,
      `expected postgres://user:password@host:port/database${got}; for development, embedded:FOLDER starts a server`,
    )
  }
  // The URL parser refuses credentials before an empty host. libpq reads an empty host as the local machine.
  const withHost = text.replace(/^([^?#]*@)(?=[/?]|$)/, '$1localhost')
  if (!URL.canParse(withHost)) throw badlyEncoded(argument)
  return new URL(withHost)
}

function decode(argument: string, part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badlyEncoded(argument)
  }
}

function badlyEncoded(argument: string): InvalidArgumentError {
  return new InvalidArgumentError(
    argument,
    'expected postgres://user:password@host:port/database; are special characters percent-encoded?',
  )
}

function readParameters(argument: string, url: URL): Map<UrlParameter, string> {
  const parameters = new Map<UrlParameter, string>()
  for (const [name, value] of url.searchParams) {
    if (!isUrlParameter(name)) {
      throw new InvalidArgumentError(argument, `expected the parameters ${URL_PARAMETERS.join(', ')}, got ${name}`)
    }
    parameters.set(name, value)
  }
  return parameters
}

function isUrlParameter(name: string): name is UrlParameter {
  return URL_PARAMETERS.some((known) => known === name)
}

function nonEmpty(text: string): string | undefined {
  return text === '' ? undefined : text
}

export interface TlsOptions {
  /**
   * `verify`: TLS, and a trusted authority must have signed the certificate for this host. `unverified`: TLS to any
   * server. `plaintext`: anyone on the network path can read and change the traffic.
   *
   * For a remote host, `unverified` and `plaintext` must be set here, in code. An `sslmode` in a URL cannot select
   * them.
   *
   * @default `verify` for a remote host, `plaintext` for this machine
   */
  readonly mode?: TlsMode
  /** Trusted authorities as PEM, instead of those built into Node.js. */
  readonly ca?: string
  /** Client certificate and key as PEM. */
  readonly cert?: string
  readonly key?: string
  /** Name that the certificate must have, if it differs from the host. */
  readonly serverName?: string
}

export type TlsMode = (typeof MODES)[number]

const MODES = ['verify', 'unverified', 'plaintext'] as const

/**
 * Mode of each `sslmode`. In libpq `require` and `verify-ca` check less than `verify-full`. Here they check as much as
 * `verify-full`, because an attacker can present any certificate. `prefer` and `allow` accept plaintext, so they count
 * as plaintext.
 */
const MODE_OF_SSLMODE: Readonly<Record<string, TlsMode>> = {
  disable: 'plaintext',
  allow: 'plaintext',
  prefer: 'plaintext',
  'no-verify': 'unverified',
  require: 'verify',
  'verify-ca': 'verify',
  'verify-full': 'verify',
}

/** Returns the driver's `ssl` setting of a connection. Throws if the mode is refused. */
export function resolveTls(url: ConnectionUrl, options: TlsOptions = {}): false | ConnectionOptions {
  const mode = decideMode(url, options)
  requireKnownNegotiation(url)
  if (mode === 'plaintext') return false
  const ca = options.ca ?? readPem(url, 'sslrootcert')
  const cert = options.cert ?? readPem(url, 'sslcert')
  const key = options.key ?? readPem(url, 'sslkey')
  const { serverName } = options
  return {
    // Set explicitly, so that NODE_TLS_REJECT_UNAUTHORIZED=0 in the environment cannot disable it.
    rejectUnauthorized: mode === 'verify',
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    // The driver sets `servername` to the host, so the expected name is checked here.
    ...(serverName === undefined
      ? {}
      : { checkServerIdentity: (_host, certificate) => checkServerIdentity(serverName, certificate) }),
  }
}

function decideMode(url: ConnectionUrl, options: TlsOptions): TlsMode {
  const byUrl = modeOfUrl(url)
  const { mode: byCode } = options
  if (byCode !== undefined && !MODES.includes(byCode)) {
    throw new InvalidArgumentError('tls.mode', `expected ${MODES.join(', ')}, got ${byCode}`)
  }
  if (byCode !== undefined && byUrl === 'verify' && byCode !== 'verify') {
    throw new InvalidArgumentError('tls.mode', `expected verify, as the sslmode of the URL demands, got ${byCode}`)
  }
  if (byCode !== undefined) return byCode
  const local = isLocal(url.host)
  if (byUrl === undefined) return local && !bringsCertificates(url, options) ? 'plaintext' : 'verify'
  if (byUrl !== 'verify' && !local) {
    throw new TlsError(`sslmode=${url.parameters.get('sslmode')} to the remote host ${url.host} is refused`, {
      remedy: `use sslmode=verify-full, or accept the risk in code: tls: { mode: '${byUrl}' }`,
    })
  }
  return byUrl
}

function modeOfUrl(url: ConnectionUrl): TlsMode | undefined {
  const sslmode = url.parameters.get('sslmode')
  if (sslmode === undefined) return undefined
  const mode = Object.hasOwn(MODE_OF_SSLMODE, sslmode) ? MODE_OF_SSLMODE[sslmode] : undefined
  if (mode === undefined) {
    throw new InvalidArgumentError('sslmode', `expected ${Object.keys(MODE_OF_SSLMODE).join(', ')}, got ${sslmode}`)
  }
  return mode
}

function requireKnownNegotiation(url: ConnectionUrl): void {
  const negotiation = url.parameters.get('sslnegotiation')
  if (negotiation !== undefined && negotiation !== 'postgres' && negotiation !== 'direct') {
    throw new InvalidArgumentError('sslnegotiation', `expected postgres or direct, got ${negotiation}`)
  }
}

/**
 * Returns true for a unix socket or the loopback network, where no third party can read the traffic. Other names that
 * resolve to this machine do not count.
 */
function isLocal(given: string): boolean {
  const host = given.toLowerCase()
  return host.startsWith('/') || host === 'localhost' || host === '::1' || (isIPv4(host) && host.startsWith('127.'))
}

function bringsCertificates(url: ConnectionUrl, options: TlsOptions): boolean {
  const parameters: readonly UrlParameter[] = ['sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation']
  return (
    parameters.some((name) => url.parameters.has(name)) ||
    [options.ca, options.cert, options.key, options.serverName].some((given) => given !== undefined)
  )
}

function readPem(url: ConnectionUrl, parameter: 'sslrootcert' | 'sslcert' | 'sslkey'): string | undefined {
  const path = url.parameters.get(parameter)
  // In libpq, `system` means the authorities that the machine trusts. Here Node.js's own list is used instead.
  if (path === undefined || (parameter === 'sslrootcert' && path === 'system')) return undefined
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    throw new TlsError(`the file named by ${parameter} cannot be read`, { cause: error })
  }
}
