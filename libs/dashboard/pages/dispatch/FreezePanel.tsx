import { useState } from 'preact/hooks'
import type { Dispatch } from '../../../http/index.js'
import { pathTo } from '../../app/router.js'
import { freezeDispatch, liftFreeze, readDispatch } from '../../data/api.js'
import { count, plural } from '../../data/format.js'
import { hasScope } from '../../data/me.js'
import { refreshStatus } from '../../data/status.js'
import { useResource } from '../../data/useResource.js'
import { Icon } from '../../parts/Icon.js'
import { ResourceView } from '../../parts/ResourceView.js'
import { RelativeTime } from '../../parts/RelativeTime.js'
import { Panel } from '../../parts/Panel.js'
import { ReasonDialog } from '../../parts/ReasonDialog.js'

export function FreezePanel() {
  const dispatch = useResource({
    key: 'dispatch',
    load: readDispatch,
    concerns: ({ type }) => type === 'status',
    everyMs: 5_000,
  })
  const onDone = () => {
    dispatch.refresh()
    void refreshStatus()
  }
  return (
    <Panel title="Freeze">
      <ResourceView from={dispatch} lines={6}>
        {(value) => <FreezeDetails dispatch={value} onDone={onDone} />}
      </ResourceView>
    </Panel>
  )
}

function FreezeDetails({ dispatch, onDone }: { readonly dispatch: Dispatch; readonly onDone: () => void }) {
  const { freeze, lifted, epoch } = dispatch
  return (
    <div class="stack">
      {freeze === null ? <Open /> : <Frozen freeze={freeze} />}
      {hasScope('operate') ? <FreezeAction isFrozen={freeze !== null} onDone={onDone} /> : null}
      {epoch === null ? null : <Server epoch={epoch} lifted={lifted} />}
    </div>
  )
}

function Open() {
  return (
    <p>
      <span class="state tone-good">
        <Icon name="done" />
        Not frozen
      </span>{' '}
      <span class="quiet">
        After a restore, or a failover that may have lost commits, Symphony freezes dispatch until an operator lifts it.
      </span>
    </p>
  )
}

function Frozen({ freeze }: { readonly freeze: NonNullable<Dispatch['freeze']> }) {
  const { at, by, cause, meaning, reason, itemsMarked } = freeze
  return (
    <>
      <div class="note tone-bad">
        <Icon name="warning" />
        <div>
          <p>
            <strong>Dispatch is frozen: nothing is sent.</strong> {meaning}
          </p>
          <dl class="advice">
            <dt>Cause</dt>
            <dd>
              <code>{cause}</code> <bdi>{reason}</bdi>
            </dd>
            <dt>By</dt>
            <dd>{by}</dd>
            <dt>Marked</dt>
            <dd>
              {itemsMarked === null
                ? 'Pending payments are not marked yet: a worker or the lift marks them.'
                : `${count(itemsMarked)} ${plural(itemsMarked, 'pending payment has', 'pending payments have')} an unknown outcome now.`}
            </dd>
          </dl>
        </div>
        <span class="quiet">
          <RelativeTime at={at} />
        </span>
      </div>
      <section class="stack tight" aria-label="Before lifting">
        <h3>Before lifting</h3>
        <ol class="steps">
          <li>Find out what was lost: all commits since the last known heartbeat may be missing.</li>
          <li>
            Compare the rails’ records with <a href={pathTo(['payments'])}>our payments</a> over that time. Do not
            enqueue again what a rail has paid and this database does not know.
          </li>
          <li>
            <code>symphony ledger verify</code> and <code>symphony doctor --full</code> must find nothing.
          </li>
          <li>
            Then lift the freeze and watch the <a href={pathTo(['holds'])}>holds</a>: payments of unknown outcome are
            inquired about, resent or held, as their rails declare.
          </li>
        </ol>
      </section>
    </>
  )
}

function FreezeAction({ isFrozen, onDone }: { readonly isFrozen: boolean; readonly onDone: () => void }) {
  // Action at the time of the click. A freeze by another operator does not change the open dialog.
  const [asked, setAsked] = useState<'freeze' | 'lift' | null>(null)
  const close = () => setAsked(null)
  return (
    <div>
      <button
        type="button"
        class={`button ${isFrozen ? 'primary' : ''}`}
        onClick={() => setAsked(isFrozen ? 'lift' : 'freeze')}
      >
        {isFrozen ? 'Lift the freeze' : 'Freeze dispatch'}
      </button>
      {asked === null ? null : asked === 'lift' ? (
        <ReasonDialog
          title="Lift the freeze"
          action="Lift the freeze"
          explanation="Dispatch resumes at once. State what was compared, and up to what time."
          onClose={close}
          act={async (reason) => {
            const { changed } = await liftFreeze(reason)
            onDone()
            return changed ? 'The freeze is lifted.' : 'Dispatch was not frozen.'
          }}
        />
      ) : (
        <ReasonDialog
          title="Freeze dispatch"
          action="Freeze it"
          explanation="Nothing is sent until an operator lifts the freeze, and the outcome of every pending payment becomes unknown. Use it after a restore that Symphony cannot detect. To stop a rail or everything for a while, pause it instead: a pause marks no payment."
          onClose={close}
          act={async (reason) => {
            const { changed } = await freezeDispatch(reason)
            onDone()
            return changed ? 'Dispatch is frozen.' : 'Dispatch was frozen already.'
          }}
        />
      )}
    </div>
  )
}

interface ServerProps {
  readonly epoch: NonNullable<Dispatch['epoch']>
  readonly lifted: Dispatch['lifted']
}

/** Identity of the database server, by which Symphony detects a restore. */
function Server({ epoch, lifted }: ServerProps) {
  const { number, since, systemIdentifier, timeline, heartbeatAt, synchronous } = epoch
  const withheld = 'withheld by the server: it cannot be compared'
  return (
    <dl class="facts">
      <dt>Epoch</dt>
      <dd>
        {number}, since <RelativeTime at={since} />
      </dd>
      <dt>Server</dt>
      <dd>
        <span class="mono">{systemIdentifier ?? withheld}</span>
        {timeline === null ? null : `, timeline ${timeline}`}
      </dd>
      <dt>Last heartbeat</dt>
      <dd>
        <RelativeTime at={heartbeatAt} />, replication {synchronous ? 'synchronous' : 'not synchronous'}
      </dd>
      {lifted === null ? null : (
        <>
          <dt>Last lifted</dt>
          <dd>
            <RelativeTime at={lifted.at} /> by {lifted.by}: <bdi>{lifted.reason}</bdi>
          </dd>
        </>
      )}
    </dl>
  )
}
