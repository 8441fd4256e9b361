/** Returns the address of a page. Encodes its parts, because ids may contain any printable character. */
export function pathTo(parts: readonly string[], query: Readonly<Record<string, string>> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== '')
  const search = given.length === 0 ? '' : `?${new URLSearchParams(given)}`
  return `#/${parts.map((part) => encodeURIComponent(part)).join('/')}${search}`
}
