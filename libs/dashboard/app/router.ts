import { computed, signal } from '@preact/signals'
import { pathTo } from './pathTo.js'

export { pathTo } from './pathTo.js'

/**
 * Page and filters, read from the part of the address after `#`. Browsers do not send that part, so the server serves
 * one document for all pages. Reload, bookmarks and the back button still work.
 */
interface Route {
  /** Parts of the path: `['payments', id]`. */
  readonly parts: readonly string[]
  readonly query: Readonly<Record<string, string>>
}

const hash = signal(location.hash)

export const route = computed<Route>(() => parse(hash.value))

/**
 * Number of navigations, without the changes by `setQuery`. As the key of filter fields, it renders them anew from the
 * address, but not while a person types.
 */
export const navigations = signal(0)

export function startRouter(): void {
  hash.value = location.hash
  addEventListener('hashchange', () => {
    hash.value = location.hash
    navigations.value += 1
  })
}

export function navigate(path: string): void {
  location.hash = path
}

/** Changes the filters of this page. Replaces the history entry, so that "back" leaves the page. */
export function setQuery(changes: Readonly<Record<string, string>>): void {
  const { parts, query } = route.peek()
  history.replaceState(null, '', pathTo(parts, { ...query, ...changes }))
  hash.value = location.hash
}

function parse(text: string): Route {
  const [path = '', search = ''] = text.replace(/^#\/?/, '').split('?', 2)
  const parts = path.split('/').filter((part) => part !== '')
  return { parts: parts.map(decode), query: Object.fromEntries(new URLSearchParams(search)) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
