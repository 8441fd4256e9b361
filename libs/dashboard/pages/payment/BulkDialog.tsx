import { useRef } from 'preact/hooks'
import type { OutboxItem, Proposal } from '../../../http/index.js'
import { approveProposal, cancelPayment, placeHold, redrive, resolveHold } from '../../data/api.js'
import { plural } from '../../data/format.js'
import { BulkActionDialog } from '../../parts/BulkActionDialog.js'
import { wordsOfDecision } from '../../parts/decisions.js'
import { formText } from '../../parts/formText.js'
import { MoneyList } from '../../parts/MoneyList.js'
import { ResolveDialog } from './actions.js'
import type { BulkAction, SelectableRow } from './actionsFor.js'

interface BulkDialogProps {
  readonly action: BulkAction
  readonly rows: readonly SelectableRow[]
  /** Number of selected payments whose state does not allow the action. */
  readonly leftOut: number
  readonly onClose: () => void
  readonly onDone: (done: readonly OutboxItem[]) => void
}

interface BulkWords {
  readonly title: string
  readonly action: (size: number) => string
  readonly explanation: string
  readonly announcement: (size: number) => string
  readonly act: (item: OutboxItem, reason: string) => Promise<unknown>
}

const payments = (size: number) => `${size} ${plural(size, 'payment')}`

const WORDS: Readonly<Record<Exclude<BulkAction, 'approve' | 'resolve'>, BulkWords>> = {
  hold: {
    title: 'Hold',
    action: (size) => `Hold ${payments(size)}`,
    explanation: 'No worker may claim them until their holds are resolved. A current lease continues.',
    announcement: (size) => `${payments(size)} ${plural(size, 'is', 'are')} held.`,
    act: ({ outboxId }, reason) => placeHold(outboxId, reason),
  },
  release: {
    title: 'Release',
    action: (size) => `Release ${payments(size)}`,
    explanation: 'A worker may send them at once. Where a limit asks for two people, a release is proposed.',
    announcement: (size) => `${payments(size)} ${plural(size, 'is', 'are')} released or proposed.`,
    act: ({ outboxId }, reason) => resolveHold(outboxId, { decision: 'RETRY', reason }),
  },
  cancel: {
    title: 'Cancel',
    action: (size) => `Cancel ${payments(size)}`,
    explanation:
      'They end as failed and are never sent. This is final. A payment that a worker claims first is refused.',
    announcement: (size) => `${payments(size)} ${plural(size, 'is', 'are')} cancelled.`,
    act: ({ outboxId }, reason) => cancelPayment(outboxId, reason),
  },
  redrive: {
    title: 'Redrive',
    action: (size) => `Propose ${size} ${plural(size, 'redrive')}`,
    explanation:
      'Proposes to send each again as a new payment, with this reason. Another person must approve them before anything happens.',
    announcement: (size) =>
      `${size} ${plural(size, 'redrive is', 'redrives are')} proposed. Another person must approve.`,
    act: ({ outboxId }, reason) => redrive(outboxId, reason),
  },
}

/** Asks for one reason, and acts on each selected payment. */
export function BulkDialog({ action, rows, leftOut, onClose, onDone }: BulkDialogProps) {
  const applied = useRef(0)
  const items = rows.map(({ item }) => item)
  const rest =
    leftOut === 0 ? null : <p class="quiet">{payments(leftOut)} not included: the state does not allow it.</p>
  if (action === 'resolve') return <ResolveDialog items={items} onClose={onClose} onDone={onDone} />
  if (action === 'approve') {
    const asked = rows.flatMap(({ item, proposal }) => (proposal ? [{ ...item, ...proposal }] : []))
    return (
      <BulkActionDialog
        title={`Approve ${asked.length} ${plural(asked.length, 'proposal')}`}
        action={`Approve ${asked.length}`}
        all={asked}
        act={async ({ proposalId }) => {
          if ((await approveProposal(proposalId)).applied) applied.current += 1
        }}
        announcement={() => resultOf(applied.current, asked.length - applied.current)}
        needsReason={false}
        onClose={onClose}
        onDone={onDone}
      >
        <p>
          The approval applies the decision of each payment shown: {wordsOf(asked)}. Where a limit asks for two people,
          it is one of their approvals. You are responsible for each of them.
        </p>
        <MoneyList payments={asked} />
        {rest}
      </BulkActionDialog>
    )
  }
  const words = WORDS[action]
  return (
    <BulkActionDialog
      title={`${words.title} ${payments(items.length)}`}
      action={words.action(items.length)}
      all={items}
      act={(item, form) => words.act(item, formText(form, 'reason'))}
      announcement={() => words.announcement(items.length)}
      onClose={onClose}
      onDone={onDone}
    >
      <p>{words.explanation}</p>
      <MoneyList payments={items} />
      {rest}
    </BulkActionDialog>
  )
}

/** Returns the sentence to announce for approvals. Where a limit asks for two people, the first applies nothing. */
function resultOf(applied: number, open: number): string {
  return `${applied} approved and applied${open === 0 ? '' : `, ${open} ${plural(open, 'needs', 'need')} one more person`}.`
}

/** Returns a text such as `3 × redrive, 1 × it was not paid`. */
function wordsOf(proposals: readonly (OutboxItem & Proposal)[]): string {
  const all = proposals.map((one) => wordsOfDecision(one.decision, one).short)
  return [...new Set(all)].map((short) => `${all.filter((one) => one === short).length} × ${short}`).join(', ')
}
