import { randomBytes, randomUUID } from 'node:crypto'
import { link, mkdir, open, readFile, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { SymphonyError, hasCode } from '../../core/index.js'

/**
 * Reads a secret from a file, or creates one that only its owner can read. Links the complete file to its name, so that
 * a crash leaves no partial secret. Of two processes that create a secret at once, both use the file linked first.
 */
export async function readOrCreateSecret(path: string, make: () => string): Promise<string> {
  try {
    return (await readIfAny(path)) ?? (await create(path, make()))
  } catch (error) {
    throw new SymphonyError('SECRET_UNREADABLE', `The file ${path} cannot be read or created.`, {
      cause: error,
      remedy: 'Run as the user who created it, or choose another --data-dir.',
    })
  }
}

async function create(path: string, secret: string): Promise<string> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const unfinished = `${path}.${randomUUID()}`
  try {
    const file = await open(unfinished, 'wx', 0o600)
    await file.writeFile(`${secret}\n`)
    await file.sync()
    await file.close()
    await link(unfinished, path)
    return secret
  } catch (error) {
    if (!hasCode(error, 'EEXIST')) throw error
    return (await readIfAny(path)) ?? secret
  } finally {
    await rm(unfinished, { force: true })
  }
}

async function readIfAny(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Database login of Symphony's processes. The login is a member of the roles and switches to them. */
interface ProcessLogin {
  readonly name: string
  readonly password: string
}

export function newLogin(prefix: string): ProcessLogin {
  return { name: `${prefix}_${randomBytes(4).toString('hex')}`, password: randomBytes(24).toString('base64url') }
}

/**
 * Returns the login of a data folder. Its name is random, because logins belong to the whole PostgreSQL cluster, which
 * several folders may share. The file is written before the login is created, so that a crash in between is harmless.
 */
export async function loginOf(dataDir: string): Promise<ProcessLogin> {
  const kept = await readOrCreateSecret(join(dataDir, 'process-login'), () => {
    const { name, password } = newLogin('symphony_start')
    return `${name}:${password}`
  })
  const [name = '', password = ''] = kept.split(':', 2)
  return { name, password }
}

/**
 * Parses the URL of a server. In a PostgreSQL URL an empty host means this machine, but a WHATWG URL with credentials
 * must have a host.
 */
export function parseServerUrl(url: string): URL {
  return new URL(url.replace(/^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)(?=[/?#]|$)/, '$1localhost'))
}

export function urlOfLogin(url: string, { name, password }: ProcessLogin): string {
  const address = parseServerUrl(url)
  address.username = encodeURIComponent(name)
  address.password = encodeURIComponent(password)
  // Removes parameters that would override the login set above.
  address.searchParams.delete('user')
  address.searchParams.delete('password')
  return address.href
}
