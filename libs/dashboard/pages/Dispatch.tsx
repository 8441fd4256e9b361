import { FreezePanel } from './dispatch/FreezePanel.js'
import { PausesPanel } from './dispatch/PausesPanel.js'

/** What keeps payments from leaving, and lets them leave again. */
export function Dispatch() {
  return (
    <>
      <header class="page-head">
        <h1>Dispatch</h1>
        <p class="lead">
          What keeps payments from leaving: a freeze of everything, or a pause. Whatever is in flight goes on.
        </p>
      </header>
      <div class="stack">
        <FreezePanel />
        <PausesPanel />
      </div>
    </>
  )
}
