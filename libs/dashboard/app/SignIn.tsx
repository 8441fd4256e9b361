import { rejected, signIn } from '../data/session.js'
import { formText } from '../parts/formText.js'
import { Icon } from '../parts/Icon.js'
import { Logo } from '../parts/Logo.js'

/** Shown without a token, or after the server refused the token. */
export function SignIn() {
  return (
    <main class="signin">
      <section class="panel" aria-label="Sign in">
        <form class="body form" onSubmit={submit}>
          <h1 class="brand">
            <Logo />
            Symphony
          </h1>
          {rejected.value ? (
            <div class="note tone-bad" role="alert">
              <Icon name="warning" />
              <p>
                <strong>Not accepted.</strong> The token is wrong, has expired or was revoked.
              </p>
            </div>
          ) : (
            <p class="quiet">
              The address that <code>symphony start</code> prints contains the token. Otherwise enter one here.
            </p>
          )}
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
          <button class="button primary" type="submit">
            Sign in
          </button>
        </form>
      </section>
    </main>
  )
}

function submit(event: SubmitEvent): void {
  event.preventDefault()
  if (!(event.currentTarget instanceof HTMLFormElement)) return
  const token = formText(new FormData(event.currentTarget), 'token')
  if (token !== '') signIn(token)
}
