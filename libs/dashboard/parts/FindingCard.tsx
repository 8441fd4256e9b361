import type { ComponentChildren } from 'preact'
import type { Finding } from '../../http/index.js'
import { pathTo } from '../app/pathTo.js'
import { FindingSides } from './FindingSides.js'
import { Icon, type IconName } from './Icon.js'
import { RelativeTime } from './RelativeTime.js'
import type { Tone } from './states.js'

/** One difference between a statement and the ledger. */
export function FindingCard({ finding, action }: { readonly finding: Finding; readonly action?: ComponentChildren }) {
  const { kind, severity, outboxId, payment, railType, createdAt, note, proposalId, returnEventId, closed } = finding
  const { word, tone, icon } = SEVERITIES[severity]
  return (
    <li class={`tone-${tone}`}>
      <div class="finding-head">
        <span class={`state tone-${tone}`}>
          <Icon name={icon} />
          {word}
        </span>
        <h3>{KINDS[kind].word}</h3>
        {outboxId === null ? null : (
          <a href={pathTo(['payments', outboxId])}>{payment?.instructionId ?? 'the payment'}</a>
        )}
        {createdAt === null ? null : (
          <span class="quiet">
            {railType}, found <RelativeTime at={createdAt} />
          </span>
        )}
        {action}
      </div>
      <p class="quiet">
        {KINDS[kind].advice} {note}{' '}
        {proposalId === null
          ? null
          : 'The run proposed to record it as dispatched. Two people must approve that on the page of the payment.'}
        {returnEventId === null ? null : 'The return is recorded.'}
      </p>
      <FindingSides finding={finding} />
      {closed === null ? null : (
        <p>
          Closed by {closed.by} <RelativeTime at={closed.at} />: “<bdi>{closed.reason}</bdi>”
        </p>
      )}
    </li>
  )
}

interface SeverityStyle {
  readonly word: string
  readonly tone: Tone
  readonly icon: IconName
}

const SEVERITIES: Readonly<Record<Finding['severity'], SeverityStyle>> = {
  critical: { word: 'Critical', tone: 'bad', icon: 'warning' },
  warning: { word: 'Warning', tone: 'warn', icon: 'info' },
  info: { word: 'For information', tone: 'wait', icon: 'info' },
}

interface KindText {
  readonly word: string
  readonly advice: string
}

export const KINDS: Readonly<Record<Finding['kind'], KindText>> = {
  paid_twice: {
    word: 'Paid twice',
    advice: 'The bank booked the payment more than once. Ask the bank to return the surplus.',
  },
  paid_not_recorded: {
    word: 'Paid, not recorded',
    advice: 'The bank paid it, but the ledger does not record it as dispatched. Do not send it again.',
  },
  recorded_not_paid: {
    word: 'Recorded, not paid',
    advice: 'The ledger records it as dispatched, but no statement shows it. Ask the bank.',
  },
  amount_differs: { word: 'Amount differs', advice: 'The bank booked another amount or currency than we sent.' },
  reversed: { word: 'Reversed', advice: 'The bank returned the money.' },
  unknown_entry: { word: 'Unknown entry', advice: 'The bank booked a debit without a reference of ours.' },
}
