import { Money, type ShownMoney } from './Money.js'
import { StateTag } from './StateTag.js'

interface MoneyListProps {
  readonly payments: readonly (ShownMoney & {
    readonly outboxId: string
    readonly instructionId: string
    readonly outcomeUnknown?: boolean
  })[]
}

/** Every payment that a decision about many is about. */
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
        </li>
      ))}
    </ul>
  )
}
