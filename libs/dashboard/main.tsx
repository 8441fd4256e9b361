import { render } from 'preact'
import { App } from './app/App.js'
import { startKeys } from './app/keys.js'
import { startRouter } from './app/router.js'
import { startTheme } from './app/theme.js'
import { startClock } from './data/clock.js'
import { openSession } from './data/session.js'

startTheme()
openSession()
// Finishes the sign-in, because the identity provider has redirected the browser back.
if (location.search.includes('state=')) void import('./app/SignIn.js').then(({ finishSignIn }) => finishSignIn())
startRouter()
startClock()
startKeys()

const root = document.getElementById('app')
if (root !== null) render(<App />, root)
