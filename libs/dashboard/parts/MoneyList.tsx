import type { OutboxItem, Proposal } from '../../http/index.js'
import { wordsOfDecision } from './decisions.js'
import { Money } from './Money.js'
import { StateTag } from './StateTag.js'

interface MoneyListProps {
  readonly payments: readonly (OutboxItem &
    Partial<Pick<Proposal, 'decision' | 'railReference' | 'reason' | 'proposedBy'>>)[]
}

/** Payments of a bulk decision, each with its hold reason. For a proposal, also its author and effect. */
export function MoneyList({ payments }: MoneyListProps) {
  return (
    <ul class="money-list" aria-label="Payments">
      {payments.map((payment) => (
        <li key={payment.outboxId}>
          <span>
            {payment.instructionId} {payment.outcomeUnknown ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
          </span>
          <span>
            <Money of={payment} />
          </span>
          <div class="quiet">
            {payment.holdReason === null ? null : (
              <div>
                Held: <bdi>{payment.holdReason}</bdi>
              </div>
            )}
            {payment.decision === undefined ? null : (
              <div>
                {payment.proposedBy} proposes: {wordsOfDecision(payment.decision, payment).short}{' '}
                {payment.railReference} “<bdi>{payment.reason}</bdi>”.{' '}
                {wordsOfDecision(payment.decision, payment).effect}
              </div>
            )}
          </div>
        </li>
      ))}
    </ul>
  )
}
