import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { keptSecret } from './secretFile.js'

/** A login that processes of Symphony use: a member of roles, which it switches to. */
export interface ProcessLogin {
  readonly name: string
  readonly password: string
}

export function newLogin(prefix: string): ProcessLogin {
  return { name: `${prefix}_${randomBytes(4).toString('hex')}`, password: randomBytes(24).toString('base64url') }
}

/**
 * The login of the processes of one data folder. Its name is its own, because logins belong to the whole cluster, and another
 * folder may be using the same one; written down before it is created, so that a crash in between changes nothing.
 */
export async function loginOf(dataDir: string): Promise<ProcessLogin> {
  const kept = await keptSecret(join(dataDir, 'process-login'), () => {
    const { name, password } = newLogin('symphony_start')
    return `${name}:${password}`
  })
  const [name = '', password = ''] = kept.split(':', 2)
  return { name, password }
}

/** The same way to the same database, as somebody else. */
export function urlOfLogin(url: string, { name, password }: ProcessLogin): string {
  // An empty host means this machine; WHATWG refuses it beside credentials.
  const address = new URL(url.replace(/^([^?#]*@)(?=[/?]|$)/, '$1localhost'))
  address.username = encodeURIComponent(name)
  address.password = encodeURIComponent(password)
  // Parameters of the same name would win.
  address.searchParams.delete('user')
  address.searchParams.delete('password')
  return address.href
}
