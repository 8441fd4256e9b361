import { pathTo } from '../app/router.js'
import { Amount, Destination, type ShownMoney } from './Money.js'
import { SelectBox, type Selection } from './Selection.js'

interface PaymentCellsProps {
  readonly item: ShownMoney & {
    readonly outboxId: string
    readonly instructionId: string
    readonly participantId: string
    readonly sequenceId: string
    readonly railType: string
  }
  /** Selection of the list; absent if its rows cannot be selected. */
  readonly selection?: Selection
}

/** First three cells of a table of payments: payment, amount and destination, rail. */
export function PaymentCells({ item, selection }: PaymentCellsProps) {
  return (
    <>
      <td data-label="Payment">
        {selection === undefined ? null : <SelectBox item={item} selection={selection} />}
        <a href={pathTo(['payments', item.outboxId])}>{item.instructionId}</a>
        <div class="quiet">
          {item.participantId} № {item.sequenceId}
        </div>
      </td>
      <td data-label="Amount">
        <Amount of={item} />
        <div>
          <Destination of={item} />
        </div>
      </td>
      <td data-label="Rail" class="name">
        {item.railType}
      </td>
    </>
  )
}
