/** A login that processes of Symphony use: a member of roles, which it switches to. */
export interface ProcessLogin {
  readonly name: string
  readonly password: string
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
