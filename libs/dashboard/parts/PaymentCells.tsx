import { pathTo } from '../app/router.js'

interface PaymentCellsProps {
  readonly item: {
    readonly outboxId: string
    readonly instructionId: string
    readonly participantId: string
    readonly sequenceId: string
    readonly railType: string
  }
}

/** The first two cells of every table of payments that wait for a person: which one, and where it was going. */
export function PaymentCells({ item }: PaymentCellsProps) {
  return (
    <>
      <td data-label="Payment">
        <a href={pathTo(['payments', item.outboxId])}>{item.instructionId}</a>
        <div class="quiet">
          {item.participantId} № {item.sequenceId}
        </div>
      </td>
      <td data-label="Rail" class="name">
        {item.railType}
      </td>
    </>
  )
}
