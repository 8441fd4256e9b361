import { computed, signal } from '@preact/signals'

/**
 * Key of the access token in the storage of this tab. The token arrives in the part of the address after `#`, which
 * browsers do not send to servers, and is removed from the address at once. Requests send the token as a header, not as
 * a cookie, so that no other site can use it.
 */
const TOKEN_KEY = 'symphony.token'
/**
 * Key that records that this browser has a session cookie, because scripts cannot read the cookie. All tabs share the
 * key and the cookie.
 */
const SESSION_KEY = 'symphony.session'

const token = signal<string | null>(null)
const hasSession = signal(false)
/** Credential that the server refused last, for the sign-in form. */
export const rejected = signal<'token' | 'session' | null>(null)
export const isSignedIn = computed(() => token.value !== null || hasSession.value)

export function openSession(): void {
  const given = /^#token=([^&]+)/.exec(location.hash)?.[1]
  if (given !== undefined) {
    history.replaceState(null, '', `${location.pathname}${location.search}#/`)
    signIn(decodeURIComponent(given))
  } else token.value = sessionStorage.getItem(TOKEN_KEY)
  hasSession.value = token.value === null && localStorage.getItem(SESSION_KEY) !== null
}

export function signIn(given: string): void {
  sessionStorage.setItem(TOKEN_KEY, given)
  rejected.value = null
  token.value = given
}

/** Starts to use the cookie that the server has set. */
export function useSession(): void {
  localStorage.setItem(SESSION_KEY, '1')
  rejected.value = null
  hasSession.value = true
}

/** Forgets token and session in this browser. `signOut` in signIn.ts ends the session on the server. */
export function forgetCredential(): void {
  sessionStorage.removeItem(TOKEN_KEY)
  localStorage.removeItem(SESSION_KEY)
  token.value = null
  hasSession.value = false
}

/** Returns the token; null if requests send the cookie. */
export function readToken(): string | null {
  return token.peek()
}

/** Signs out if the refused credential is the current one. A late answer may be about an older token. */
export function credentialWasRejected(sent: string | null): void {
  if (!isSignedIn.peek() || sent !== token.peek()) return
  rejected.value = sent === null ? 'session' : 'token'
  forgetCredential()
}
