import { useEffect } from 'preact/hooks'
import { rejected, signIn } from '../data/session.js'
import { isSigningIn, loadProvider, provider, signInAtProvider, signInProblem } from '../data/signIn.js'
import { formText } from '../parts/formText.js'
import { Icon } from '../parts/Icon.js'
import { Logo } from '../parts/Logo.js'
import { ProblemNote } from '../parts/ProblemNote.js'

export { finishSignIn, signOut } from '../data/signIn.js'

/** Form shown without a credential, or after the server refused one. */
export function SignIn() {
  useEffect(() => {
    const page = new AbortController()
    void loadProvider(page.signal)
    return () => page.abort()
  }, [])
  const problem = signInProblem.value
  return (
    <main class="signin">
      <section class="panel" aria-label="Sign in">
        <form class="body form" onSubmit={submit}>
          <h1 class="brand">
            <Logo />
            Symphony
          </h1>
          {problem === null ? <Rejected /> : <ProblemNote problem={problem} />}
          <Provider />
          <div class="field">
            <label for="token">Access token</label>
            <input
              id="token"
              name="token"
              class="input mono"
              type="password"
              autocomplete="off"
              spellcheck={false}
              required
              autofocus
            />
            <span class="hint">
              Kept in this tab only. Create one with <code>symphony keys create</code>.
            </span>
          </div>
          <button class={provider.value === null ? 'button primary' : 'button'} type="submit">
            Sign in
          </button>
        </form>
      </section>
    </main>
  )
}

function Provider() {
  if (provider.value === null) return null
  return (
    <button class="button primary" type="button" disabled={isSigningIn.value} onClick={() => void signInAtProvider()}>
      Sign in with {provider.value}
    </button>
  )
}

function Rejected() {
  if (rejected.value === null) {
    return (
      <p class="quiet">
        The address that <code>symphony start</code> prints contains the token. Otherwise enter one here.
      </p>
    )
  }
  return (
    <div class="note tone-bad" role="alert">
      <Icon name="warning" />
      <p>
        {rejected.value === 'session' ? (
          <>
            <strong>Signed out.</strong> The session has ended.
          </>
        ) : (
          <>
            <strong>Not accepted.</strong> The token is wrong, has expired or was revoked.
          </>
        )}
      </p>
    </div>
  )
}

function submit(event: SubmitEvent): void {
  event.preventDefault()
  if (!(event.currentTarget instanceof HTMLFormElement)) return
  const token = formText(new FormData(event.currentTarget), 'token')
  if (token !== '') signIn(token)
}
