import { computed, signal } from '@preact/signals'

/**
 * Access token. It arrives in the part of the address after the `#`, which browsers do not send to servers. It is
 * removed from the address at once and kept only in this tab. It is sent as a header, not as a cookie, so that no other
 * site can use it.
 */
const KEY = 'symphony.token'

const token = signal<string | null>(null)
/** True if the server refused the token. The sign-in form then says so. */
export const rejected = signal(false)
export const isSignedIn = computed(() => token.value !== null)

export function openSession(): void {
  const given = /^#token=([^&]+)/.exec(location.hash)?.[1]
  if (given !== undefined) {
    history.replaceState(null, '', `${location.pathname}${location.search}#/`)
    signIn(decodeURIComponent(given))
  } else token.value = sessionStorage.getItem(KEY)
}

export function signIn(given: string): void {
  sessionStorage.setItem(KEY, given)
  rejected.value = false
  token.value = given
}

export function signOut(): void {
  sessionStorage.removeItem(KEY)
  token.value = null
}

export function readToken(): string | null {
  return token.peek()
}

/** Signs out if the refused token is the current one. A late answer may concern an older token. */
export function tokenWasRejected(sent: string | null): void {
  if (sent === null || sent !== token.peek()) return
  rejected.value = true
  signOut()
}
