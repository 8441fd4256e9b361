/** The parts of a server's address that matter here. */

export function urlTo(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${encodeURIComponent(database)}`
  return url.href
}

export function databaseOf(url: string): string {
  return decodeURIComponent(new URL(url).pathname.slice(1))
}

/** The login's own role: making databases is the superuser's own affair. */
export function loginOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
