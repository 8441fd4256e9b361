import type { Proposal } from '../../http/index.js'
import { DECISIONS } from './decisions.js'
import { Money, type ShownMoney } from './Money.js'
import { StateTag } from './StateTag.js'

interface MoneyListProps {
  readonly payments: readonly (ShownMoney &
    Partial<Pick<Proposal, 'decision' | 'railReference' | 'reason'>> & {
      readonly outboxId: string
      readonly instructionId: string
      readonly outcomeUnknown?: boolean
    })[]
}

/** Every payment that a decision about many is about. A proposal also shows its decision, reference and reason. */
export function MoneyList({ payments }: MoneyListProps) {
  return (
    <ul class="money-list" aria-label="Payments">
      {payments.map((payment) => (
        <li key={payment.outboxId}>
          <span>
            {payment.instructionId} {payment.outcomeUnknown === true ? <StateTag state="OUTCOME_UNKNOWN" /> : null}
          </span>
          <span>
            <Money of={payment} />
          </span>
          {payment.decision === undefined ? null : (
            <span class="quiet">
              {DECISIONS[payment.decision].short} {payment.railReference} “{payment.reason}”
            </span>
          )}
        </li>
      ))}
    </ul>
  )
}
