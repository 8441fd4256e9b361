import { computed, signal } from '@preact/signals'

/**
 * The access token: handed over in the address (`#token=…`), which no server and no log sees, taken out of it at once, and
 * kept for this tab alone. It is sent as a header, never as a cookie, so another site cannot make the browser use it.
 */
const KEY = 'symphony.token'

const token = signal<string | null>(null)
/** Why the form is shown: the server did not accept the token it was shown. */
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

/** Only the token that was sent: an answer that comes late says nothing about another one. */
export function tokenWasRejected(sent: string | null): void {
  if (sent === null || sent !== token.peek()) return
  rejected.value = true
  signOut()
}
