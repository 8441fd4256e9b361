import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { boundTo } from '../data/me.js'
import { isSignedIn } from '../data/session.js'
import { watchFreshness } from '../data/freshness.js'
import { followStatus, status } from '../data/status.js'
import { keepStreamOpen } from '../data/stream.js'
import { DeadLetters } from '../pages/DeadLetters.js'
import { Holds } from '../pages/Holds.js'
import { NotFound } from '../pages/NotFound.js'
import { NotPermitted } from '../pages/NotPermitted.js'
import { Overview } from '../pages/Overview.js'
import { Payment } from '../pages/Payment.js'
import { Payments } from '../pages/Payments.js'
import { fetched } from '../parts/fetched.js'
import { NAV_ITEMS } from './navItems.js'
import { route } from './router.js'
import { Shell } from './Shell.js'

export function App() {
  const signedIn = isSignedIn.value
  useEffect(() => {
    if (!signedIn) return undefined
    const session = new AbortController()
    void keepStreamOpen(session.signal)
    void followStatus(session.signal)
    void watchFreshness(session.signal)
    return () => session.abort()
  }, [signedIn])
  if (!signedIn) return <SignIn />
  return (
    <Shell>
      <Page />
    </Shell>
  )
}

const NotLoaded = () => <p>The page was not loaded. Reload it.</p>
const SignIn = fetched(async () => (await import('./SignIn.js')).SignIn, NotLoaded)
const Contradictions = fetched(async () => (await import('../pages/Contradictions.js')).Contradictions, NotLoaded)
const Dispatch = fetched(async () => (await import('../pages/Dispatch.js')).Dispatch, NotLoaded)
const Scheduler = fetched(async () => (await import('../pages/Scheduler.js')).Scheduler, NotLoaded)
const Inbox = fetched(async () => (await import('../pages/Inbox.js')).Inbox, NotLoaded)
const Limits = fetched(async () => (await import('../pages/Limits.js')).Limits, NotLoaded)
const Databases = fetched(async () => (await import('../pages/Databases.js')).Databases, NotLoaded)
const Leases = fetched(async () => (await import('../pages/Leases.js')).Leases, NotLoaded)
const Rail = fetched(async () => (await import('../pages/Rail.js')).Rail, NotLoaded)
const Worker = fetched(async () => (await import('../pages/Worker.js')).Worker, NotLoaded)
const Reconciliation = fetched(
  async () =>
    (await Promise.all([import('../pages/Reconciliation.js'), import('../styles/reconciliation.css')]))[0]
      .Reconciliation,
  NotLoaded,
)

const PAGES: Readonly<Record<string, (props: object) => JSX.Element>> = {
  '': Overview,
  payments: Payments,
  dlq: DeadLetters,
  holds: Holds,
  contradictions: Contradictions,
  limits: Limits,
  reconciliation: Reconciliation,
  dispatch: Dispatch,
  scheduler: Scheduler,
  inbox: Inbox,
  leases: Leases,
  databases: Databases,
}

function Page() {
  const [first = '', second] = route.value.parts
  const item = NAV_ITEMS.find(({ path }) => path === first)
  const firing = status.value?.alerts.filter(({ state }) => state === 'firing').length ?? 0
  const title = [
    firing === 0 ? '' : `(${firing}) `,
    item === undefined ? (second === undefined ? '' : `${second} · `) : `${item.title} · `,
    'Symphony',
  ].join('')
  // The title contains the number of firing alerts, which a background tab shows too.
  useEffect(() => {
    document.title = title
  }, [title])
  if (first === 'payments' && second !== undefined) return <Payment key={second} outboxId={second} />
  if (second !== undefined && (first === 'rails' || first === 'workers')) {
    if (boundTo() !== null) return <NotPermitted title={second} />
    return first === 'rails' ? <Rail key={second} railType={second} /> : <Worker key={second} workerId={second} />
  }
  if (item?.isShared === true && boundTo() !== null) return <NotPermitted title={item.title} />
  const Found = PAGES[first] ?? NotFound
  return <Found />
}
