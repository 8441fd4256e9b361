import { Money, type ShownMoney } from './Money.js'

interface MoneyListProps {
  readonly payments: readonly (ShownMoney & { readonly outboxId: string; readonly instructionId: string })[]
}

/** Every payment that a decision about many is about. */
export function MoneyList({ payments }: MoneyListProps) {
  return (
    <ul class="money-list" aria-label="Payments">
      {payments.map((payment) => (
        <li key={payment.outboxId}>
          <span>{payment.instructionId}</span>
          <span>
            <Money of={payment} />
          </span>
        </li>
      ))}
    </ul>
  )
}
