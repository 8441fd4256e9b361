import { useState } from 'preact/hooks'
import type { OutboxItem, Timeline } from '../../http/index.js'
import { pathTo } from '../app/router.js'
import { readTimeline } from '../data/api.js'
import { mentions } from '../data/items.js'
import { hasScope } from '../data/me.js'
import { useResource } from '../data/useResource.js'
import { FreezeNote } from '../parts/FreezeNote.js'
import { Id } from '../parts/Id.js'
import { ResourceView } from '../parts/ResourceView.js'
import { RelativeTime } from '../parts/RelativeTime.js'
import { Amount, Destination } from '../parts/Money.js'
import { Panel } from '../parts/Panel.js'
import { ProposalNote } from '../parts/ProposalNote.js'
import { StateTag } from '../parts/StateTag.js'
import { fetched } from '../parts/fetched.js'
import { actionsFor } from './payment/actionsFor.js'
import {
  CancelDialog,
  HoldDialog,
  NoteDialog,
  RedriveDialog,
  ReplaceDialog,
  ResolveDialog,
  ReturnDialog,
} from './payment/dialogs.js'
import { LedgerPanel } from './payment/LedgerPanel.js'
import { TimelineView } from './payment/TimelineView.js'

const BankPanel = fetched(
  async () => (await Promise.all([import('./Reconciliation.js'), import('../styles/reconciliation.css')]))[0].BankPanel,
  () => <></>,
)

export function Payment({ outboxId }: { readonly outboxId: string }) {
  const timeline = useResource({
    key: outboxId,
    load: (signal) => readTimeline(outboxId, signal),
    concerns: (event) => mentions(event, outboxId),
    everyMs: 10_000,
  })
  return (
    <>
      {timeline.state.value.value === undefined ? (
        <header class="page-head">
          <h1>Payment</h1>
        </header>
      ) : null}
      <ResourceView from={timeline} lines={14}>
        {(value) => <PaymentDetails timeline={value} onDone={timeline.refresh} />}
      </ResourceView>
    </>
  )
}

function PaymentDetails({ timeline, onDone }: { readonly timeline: Timeline; readonly onDone: () => void }) {
  const { item, attempts, events, proposals, redrivenAs, replacedBy, bankEntries, findings } = timeline
  const assignee = assigneeIn(events)
  const open = proposals.filter(({ status }) => status === 'OPEN')
  return (
    <>
      <header class="page-head">
        <h1 class="payment-title">{item.instructionId}</h1>
        <StateTag state={item.state} />
        {item.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
        {item.returned ? <StateTag state="RETURNED" /> : null}
        <Actions item={item} assignee={assignee} hasOpenProposal={open.length > 0} onDone={onDone} />
      </header>
      <div class="grid wide-narrow">
        <div class="stack">
          {open.map((proposal) => (
            <section key={proposal.proposalId} class="panel padded" aria-label="Proposal">
              <ProposalNote proposal={proposal} item={item} onDone={onDone} />
            </section>
          ))}
          <Panel title="Timeline">
            <TimelineView timeline={timeline} />
          </Panel>
          {bankEntries.length + findings.length === 0 ? null : (
            <BankPanel bankEntries={bankEntries} findings={findings} />
          )}
        </div>
        <div class="stack">
          <Facts item={item} assignee={assignee} redrivenAs={redrivenAs} replacedBy={replacedBy} />
          <LedgerPanel outboxId={item.outboxId} version={`${attempts.length} ${events.length}`} />
        </div>
      </div>
    </>
  )
}

/** Returns the assignee of the latest note. */
function assigneeIn(events: Timeline['events']): string | null {
  const assignee = events.findLast(({ eventType }) => eventType === 'NOTE_ADDED')?.detail['assignee']
  return typeof assignee === 'string' ? assignee : null
}

interface ActionsProps {
  readonly item: OutboxItem
  readonly assignee: string | null
  readonly hasOpenProposal: boolean
  readonly onDone: () => void
}

const DIALOGS = {
  cancel: CancelDialog,
  hold: HoldDialog,
  note: NoteDialog,
  resolve: ResolveDialog,
  redrive: RedriveDialog,
  replace: ReplaceDialog,
  return: ReturnDialog,
}
const WORDS = {
  cancel: 'Cancel',
  hold: 'Hold',
  note: 'Add a note',
  resolve: 'Resolve the hold',
  redrive: 'Redrive',
  replace: 'Correct and replace',
  return: 'Record a return',
}

/** Offers the actions that the state allows. The server checks each action again. */
function Actions({ item, assignee, hasOpenProposal, onDone }: ActionsProps) {
  const [chosen, setChosen] = useState<keyof typeof DIALOGS | null>(null)
  const awaitsPeople = item.holdReason !== null || (item.state === 'FAILED' && item.lastAttemptAction !== 'cancelled')
  const note = awaitsPeople && hasScope('operate') ? (['note'] as const) : []
  const offered = [...actionsFor(item, hasOpenProposal), ...note]
  if (offered.length === 0) return null
  const Chosen = chosen === null ? null : DIALOGS[chosen]
  return (
    <div class="actions">
      {offered.map((action) => (
        <button key={action} type="button" class="button" onClick={() => setChosen(action)}>
          {WORDS[action]}
        </button>
      ))}
      {Chosen === null ? null : (
        <Chosen item={item} items={[item]} assignee={assignee} onDone={onDone} onClose={() => setChosen(null)} />
      )}
    </div>
  )
}

interface FactsProps extends Pick<Timeline, 'item' | 'redrivenAs' | 'replacedBy'> {
  readonly assignee: string | null
}

function Facts({ item, assignee, redrivenAs, replacedBy }: FactsProps) {
  const { outboxId, idempotencyKey, participantId, sequenceId, railType, createdAt, ordered } = item
  return (
    <Panel title="Facts">
      <dl class="facts">
        <dt>Amount</dt>
        <dd>
          <strong>
            <Amount of={item} />
          </strong>
        </dd>
        <dt>Destination</dt>
        <dd>
          <Destination of={item} />
        </dd>
        <dt>Outbox id</dt>
        <dd>
          <Id value={outboxId} label="outbox id" whole />
        </dd>
        <dt>Key</dt>
        <dd>
          <Id value={idempotencyKey} label="idempotency key" whole />
        </dd>
        <dt>Rail</dt>
        <dd>
          <a href={pathTo(['payments'], { rail: railType })}>{railType}</a>
          {item.isMessage ? <span class="quiet"> message, not a payment</span> : null}
        </dd>
        <dt>Participant</dt>
        <dd>
          <a href={pathTo(['payments'], { participant: participantId })}>{participantId}</a>{' '}
          <span class="quiet">
            № {sequenceId}
            {ordered ? ', in order' : ''}
          </span>
        </dd>
        <dt>Created</dt>
        <dd>
          <RelativeTime at={createdAt} />
        </dd>
        {item.lastRailReference === null ? null : (
          <>
            <dt>Reference</dt>
            <dd>
              <Id value={item.lastRailReference} label="rail reference" whole />
            </dd>
          </>
        )}
        {item.holdReason === null ? null : (
          <>
            <dt>Held because</dt>
            <dd>
              <bdi>{item.holdReason}</bdi> <span class="quiet">by {item.heldBy}</span>
              <FreezeNote freeze={item.freeze} />
            </dd>
          </>
        )}
        {assignee === null ? null : (
          <>
            <dt>Assigned to</dt>
            <dd>
              <bdi>{assignee}</bdi>
            </dd>
          </>
        )}
        {item.redriveOf === null ? null : (
          <>
            <dt>Redrive of</dt>
            <dd>
              <Id value={item.redriveOf} label="id of the first payment" href={pathTo(['payments', item.redriveOf])} />
            </dd>
          </>
        )}
        {redrivenAs.length === 0 ? null : (
          <>
            <dt>Redriven as</dt>
            <dd>
              {redrivenAs.map((id) => (
                <Id key={id} value={id} label="id of the redrive" href={pathTo(['payments', id])} />
              ))}
            </dd>
          </>
        )}
        {item.returnedAmount === null ? null : (
          <>
            <dt>Returned</dt>
            <dd>
              <Amount of={{ amount: item.returnedAmount, currency: item.currency }} />
            </dd>
          </>
        )}
        {item.replaces === null ? null : (
          <>
            <dt>Replaces</dt>
            <dd>
              <Id value={item.replaces} label="id of the replaced payment" href={pathTo(['payments', item.replaces])} />
            </dd>
          </>
        )}
        {replacedBy === null ? null : (
          <>
            <dt>Replaced by</dt>
            <dd>
              <Id value={replacedBy} label="id of the replacement" href={pathTo(['payments', replacedBy])} />
            </dd>
          </>
        )}
      </dl>
    </Panel>
  )
}
