import { InvalidArgumentError } from '../core/index.js'

/** A connection URL, taken apart and checked. */
export interface ConnectionUrl {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string | undefined
  /** As with libpq, the user's own if the URL names none. */
  readonly database: string
  readonly parameters: ReadonlyMap<UrlParameter, string>
}

/** The parameters that mean something here. */
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

export type UrlParameter = (typeof URL_PARAMETERS)[number]

const PORT_DEFAULT = 5432

/**
 * The driver's own parser is not used: it lets the URL override what the code asked for (`?statement_timeout=0`), takes
 * any parameter it does not know, and reads `sslmode` its own way. A message never quotes the URL: it holds a password.
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
  // The driver would take the name of whoever runs this process.
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
    throw new InvalidArgumentError(argument, 'expected postgres://user:password@host:port/database')
  }
  // WHATWG refuses credentials before an empty host; libpq reads that as the local machine.
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
