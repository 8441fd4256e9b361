import { render } from 'preact'
import { App } from './app/App.js'
import { startKeys } from './app/keys.js'
import { startRouter } from './app/router.js'
import { startTheme } from './app/theme.js'
import { startClock } from './data/clock.js'
import { openSession } from './data/session.js'
import 'uplot/dist/uPlot.min.css'
import './styles/tokens.css'
import './styles/base.css'
import './styles/shell.css'
import './styles/parts.css'
import './styles/forms.css'
import './styles/tables.css'
import './styles/charts.css'
import './styles/pages.css'

startTheme()
openSession()
startRouter()
startClock()
startKeys()

const root = document.getElementById('app')
if (root !== null) render(<App />, root)
