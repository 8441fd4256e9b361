import { signal } from '@preact/signals'
import { announce } from '../app/announce.js'
import { finishSession, readSignInMethods, endSession, startSignIn } from './api.js'
import { problemOf, type ShownProblem } from './client.js'
import { forgetCredential, readToken, useSession } from './session.js'

/** Storage key of the page to show after the sign-in, while the provider's page is open. */
const RETURN_KEY = 'symphony.return'

/** Name of the identity provider; null without one, or until the server has answered. */
export const provider = signal<string | null>(null)
export const isSigningIn = signal(false)
export const signInProblem = signal<ShownProblem | null>(null)

export async function loadProvider(stop: AbortSignal): Promise<void> {
  try {
    provider.value = (await readSignInMethods(stop)).provider
  } catch (error) {
    if (!stop.aborted) signInProblem.value = problemOf(error)
  }
}

/** Opens the page of the identity provider, which redirects the browser back to this page. */
export function signInAtProvider(): Promise<void> {
  return attempt(async () => {
    const { authorizationUrl } = await startSignIn()
    sessionStorage.setItem(RETURN_KEY, location.hash)
    location.assign(authorizationUrl)
  })
}

/** Removes the provider's answer from the address and finishes the sign-in with it. */
export async function finishSignIn(): Promise<void> {
  const answer = location.search.slice(1)
  history.replaceState(null, '', location.pathname)
  await attempt(async () => {
    await finishSession(answer)
    location.hash = sessionStorage.getItem(RETURN_KEY) ?? ''
    useSession()
  })
  sessionStorage.removeItem(RETURN_KEY)
}

async function attempt(act: () => Promise<void>): Promise<void> {
  isSigningIn.value = true
  signInProblem.value = null
  try {
    await act()
  } catch (error) {
    signInProblem.value = problemOf(error)
  } finally {
    isSigningIn.value = false
  }
}

/** Forgets the token, or ends the session here and at the provider. */
export async function signOut(): Promise<void> {
  if (readToken() !== null) return forgetCredential()
  try {
    const { signOutUrl } = await endSession()
    forgetCredential()
    if (signOutUrl !== null) location.assign(signOutUrl)
  } catch (error) {
    announce(`You are still signed in. ${problemOf(error).title}.`)
  }
}
