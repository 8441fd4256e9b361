import type { ComponentChildren } from 'preact'
import type { BankEntry, Finding } from '../../http/index.js'
import { absolute } from '../data/format.js'
import { Amount } from './Money.js'
import { StateTag } from './StateTag.js'

type Sides = Pick<Finding, 'kind' | 'payment' | 'entries'>

/** Shows the payment in the ledger beside the bank entries, and marks the fields that differ. */
export function FindingSides({ finding }: { readonly finding: Sides }) {
  const { payment, entries } = finding
  return (
    <div class="sides">
      <div class="side-box" role="group" aria-label="Ledger">
        <h4>Ledger</h4>
        {payment === null ? <Marked is>No payment</Marked> : <LedgerSide kind={finding.kind} payment={payment} />}
      </div>
      <div class="side-box" role="group" aria-label="Bank statement">
        <h4>Bank statement</h4>
        {entries.length > 0 ? null : finding.kind === 'unknown_entry' ? (
          <span class="quiet">Shown with a token of the scope audit.</span>
        ) : (
          <Marked is>No booked entry</Marked>
        )}
        {entries.map((entry) => (
          <EntryFacts key={JSON.stringify(entry)} entry={entry} kind={finding.kind} />
        ))}
      </div>
    </div>
  )
}

interface LedgerSideProps {
  readonly kind: Finding['kind']
  readonly payment: NonNullable<Finding['payment']>
}

function LedgerSide({ kind, payment }: LedgerSideProps) {
  const { state, participantId, railReference, completedAt } = payment
  return (
    <dl class="facts">
      <dt>State</dt>
      <dd>
        <Marked is={kind === 'paid_not_recorded' || kind === 'recorded_not_paid'}>
          <StateTag state={state} />
        </Marked>
      </dd>
      <dt>Amount</dt>
      <dd>
        <Marked is={kind === 'amount_differs'}>
          <Amount of={payment} />
        </Marked>
      </dd>
      {completedAt === null ? null : (
        <>
          <dt>Ended</dt>
          <dd>{absolute(completedAt)}</dd>
        </>
      )}
      {railReference === null ? null : (
        <>
          <dt>Rail reference</dt>
          <dd class="mono">{railReference}</dd>
        </>
      )}
      <dt>Participant</dt>
      <dd>{participantId}</dd>
    </dl>
  )
}

/** Bank entry of a finding or of a timeline. A timeline has no accounts and references of entries. */
type ShownEntry = Pick<BankEntry, 'kind' | 'amount' | 'currency' | 'bookedOn' | 'valuedOn'> & Partial<BankEntry>

/** Facts of one bank entry. Marks the field that differs, by the kind of the finding; none without a kind. */
export function EntryFacts({ entry, kind }: { readonly entry: ShownEntry; readonly kind?: Finding['kind'] }) {
  const { account = null, bankReference = null, reference = null, amount, bookedOn, valuedOn } = entry
  const isPayout = entry.kind === 'payout'
  return (
    <dl class="facts">
      <dt>Entry</dt>
      <dd>
        <Marked is={MARKED_ENTRIES.has(kind)}>{isPayout ? 'Paid' : 'Returned'}</Marked>
      </dd>
      <dt>Amount</dt>
      <dd>
        <Marked is={kind === 'amount_differs'}>{amount === null ? 'not shown' : <Amount of={entry} />}</Marked>
      </dd>
      {bookedOn === null ? null : (
        <>
          <dt>Booked</dt>
          <dd>
            {bookedOn}
            {valuedOn === null || valuedOn === bookedOn ? null : <span class="quiet"> valued {valuedOn}</span>}
          </dd>
        </>
      )}
      {account === null ? null : (
        <>
          <dt>Account</dt>
          <dd class="mono">{account}</dd>
        </>
      )}
      {bankReference === null ? null : (
        <>
          <dt>Bank reference</dt>
          <dd class="mono">{bankReference}</dd>
        </>
      )}
      {reference === null ? null : (
        <>
          <dt>Reference text</dt>
          <dd class="mono">{reference}</dd>
        </>
      )}
    </dl>
  )
}

const MARKED_ENTRIES = new Set<Finding['kind'] | undefined>([
  'paid_twice',
  'paid_not_recorded',
  'reversed',
  'unknown_entry',
])

function Marked({ is, children }: { readonly is: boolean; readonly children: ComponentChildren }) {
  return is ? <mark class="differs">{children}</mark> : <>{children}</>
}
