export function urlTo(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${encodeURIComponent(database)}`
  return url.href
}

export function databaseOf(url: string): string {
  return decodeURIComponent(new URL(url).pathname.slice(1))
}

/** Returns the login in the URL. Callers use it as their role, because no role of Symphony may create databases. */
export function loginOf(url: string): string {
  return decodeURIComponent(new URL(url).username)
}
