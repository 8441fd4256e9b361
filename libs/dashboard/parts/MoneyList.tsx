import type { OutboxItem, Proposal } from '../../http/index.js'
import { DECISIONS } from './decisions.js'
import { Money } from './Money.js'
import { StateTag } from './StateTag.js'

interface MoneyListProps {
  readonly payments: readonly (OutboxItem &
    Partial<Pick<Proposal, 'decision' | 'railReference' | 'reason' | 'proposedBy'>>)[]
}

/** Every payment that a decision about many concerns, and why each is held. A proposal also shows author and effect. */
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
            {payment.holdReason === null ? null : <div>Held: {payment.holdReason}</div>}
            {payment.decision === undefined ? null : (
              <div>
                {payment.proposedBy} proposes: {DECISIONS[payment.decision].short} {payment.railReference} “
                {payment.reason}”. {DECISIONS[payment.decision].effect}
              </div>
            )}
          </div>
        </li>
      ))}
    </ul>
  )
}
