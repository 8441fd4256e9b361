import { FreezePanel } from './dispatch/FreezePanel.js'
import { PausesPanel } from './dispatch/PausesPanel.js'

export function Dispatch() {
  return (
    <>
      <header class="page-head">
        <h1>Dispatch</h1>
        <p class="lead">A freeze stops all dispatch; a pause stops part of it. Calls in flight continue.</p>
      </header>
      <div class="stack">
        <FreezePanel />
        <PausesPanel />
      </div>
    </>
  )
}
