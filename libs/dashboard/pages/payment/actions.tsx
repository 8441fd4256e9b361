import { useRef, useState } from 'preact/hooks'
import type { OutboxItem } from '../../../http/index.js'
import { addNote, cancelPayment, placeHold, recordReturn, redrive, resolveHold } from '../../data/api.js'
import { plural } from '../../data/format.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { DECISIONS } from '../../parts/decisions.js'
import { formText } from '../../parts/formText.js'
import { BulkActionDialog } from '../../parts/BulkActionDialog.js'
import { Money } from '../../parts/Money.js'
import { MoneyList } from '../../parts/MoneyList.js'
import { ReasonField, ReasonDialog } from '../../parts/ReasonDialog.js'
import { Dialog } from '../../parts/Dialog.js'
import { styleOfState } from '../../parts/states.js'
import { StateTag } from '../../parts/StateTag.js'
import { TextField } from '../../parts/TextField.js'

interface ItemDialogProps {
  readonly item: OutboxItem
  readonly onClose: () => void
  readonly onDone: () => void
}

const PROPOSED = 'Proposed. Another person must approve it before anything happens.'

export function HoldDialog({ item, onClose, onDone }: ItemDialogProps) {
  return (
    <ReasonDialog
      title="Hold this payment"
      action="Place the hold"
      explanation={
        <>
          {item.instructionId}: <Money of={item} />. No worker may claim it until the hold is resolved. A current lease
          continues, and may still end the payment.
        </>
      }
      onClose={onClose}
      act={async (reason) => {
        await placeHold(item.outboxId, reason)
        onDone()
        return `${item.instructionId} is held.`
      }}
    />
  )
}

/**
 * Adds a note. Sends the assignee only if it was changed here, because another person may have changed it meanwhile.
 */
export function NoteDialog({
  item,
  assignee,
  onClose,
  onDone,
}: ItemDialogProps & { readonly assignee: string | null }) {
  const act = async (form: FormData) => {
    const chosen = formText(form, 'assignee')
    const note = formText(form, 'note')
    await addNote(item.outboxId, chosen === (assignee ?? '') ? { note } : { note, assignee: chosen })
    onDone()
    return 'The note is recorded.'
  }
  return (
    <Dialog title="Add a note" onClose={onClose}>
      <ActionForm action="Add the note" onDone={onClose} act={act}>
        <p>
          {item.instructionId}: <Money of={item} />. A note changes nothing about the payment.
        </p>
        <div class="field">
          <label for="note">Note</label>
          <textarea id="note" name="note" class="input" required maxLength={1_000} rows={3} />
          <span class="hint">Kept in the ledger for ever, with your name. Write no account numbers.</span>
        </div>
        <TextField
          name="assignee"
          label="Assigned to"
          hint="The person who cares for this payment. Empty: nobody."
          maxLength={200}
          {...(assignee === null ? {} : { preset: assignee })}
        />
      </ActionForm>
    </Dialog>
  )
}

export function CancelDialog({ item, onClose, onDone }: ItemDialogProps) {
  return (
    <ReasonDialog
      title="Cancel this payment"
      action="Cancel the payment"
      explanation={
        <>
          {item.instructionId}: <Money of={item} />. It ends as failed and is never sent. This is final. If a worker
          claims it first, the request is refused.
        </>
      }
      onClose={onClose}
      act={async (reason) => {
        await cancelPayment(item.outboxId, reason)
        onDone()
        return `${item.instructionId} is cancelled.`
      }}
    />
  )
}

/** Records that the rail returned money, in whole or in part. The sum of all parts is limited to the amount. */
export function ReturnDialog({ item, onClose, onDone }: ItemDialogProps) {
  const act = async (form: FormData) => {
    const day = formText(form, 'day')
    const { created, returnedTotal } = await recordReturn(item.outboxId, {
      amount: formText(form, 'amount'),
      currency: formText(form, 'currency'),
      code: formText(form, 'code'),
      reference: formText(form, 'reference'),
      ...(day === '' ? {} : { occurredAt: `${day}T00:00:00Z` }),
    })
    onDone()
    return created
      ? `The return is recorded. Returned in all: ${returnedTotal}.`
      : 'This return was recorded before. Nothing changed.'
  }
  return (
    <Dialog title="Record a return" onClose={onClose}>
      <ActionForm action="Record the return" onDone={onClose} act={act}>
        <p>
          {item.instructionId}: <Money of={item} />. The rail sent this money back, or a part of it. The payment stays
          dispatched, and the return is final.
        </p>
        <div class="row">
          <TextField name="amount" label="Returned amount" pattern="[0-9]+([.][0-9]+)?" required />
          <TextField
            name="currency"
            label="Currency"
            pattern="[A-Z]{3}"
            required
            {...(item.currency === null ? {} : { preset: item.currency })}
          />
        </div>
        <div class="row">
          <TextField name="code" label="Code of the rail" hint="Such as AC04." required />
          <TextField name="day" label="Date" isDate hint="In UTC. Empty: now." />
        </div>
        <TextField
          name="reference"
          label="Reference of the return"
          hint="The rail’s own id. The same reference is recorded once."
          maxLength={255}
          required
        />
      </ActionForm>
    </Dialog>
  )
}

export function RedriveDialog({ item, onClose, onDone }: ItemDialogProps) {
  return (
    <ReasonDialog
      title="Redrive this payment"
      action="Propose the redrive"
      explanation={
        <>
          {item.instructionId}: <Money of={item} />. It is sent again as a new payment, which refers to this one. That
          moves money, so a second person must approve it.
          {item.ordered ? ' In a halted stream it keeps its place: resume the stream after the approval.' : null}
        </>
      }
      onClose={onClose}
      act={async (reason) => {
        await redrive(item.outboxId, reason)
        onDone()
        return PROPOSED
      }}
    />
  )
}

const CHOICES = [
  { decision: 'RETRY', hint: 'It was not paid. Where the outcome is unknown, another person must approve it.' },
  { decision: 'DISPATCHED', hint: 'The rail confirms it, under a reference. Another person must approve it.' },
  { decision: 'FAILED', hint: 'Ends it without sending. Another person must approve it.' },
] as const

type Decision = (typeof CHOICES)[number]['decision']

interface ResolveDialogProps {
  readonly items: readonly OutboxItem[]
  readonly onClose: () => void
  readonly onDone: (done: readonly OutboxItem[]) => void
}

/**
 * Resolves one hold or many by one decision and one reason. Preselects no decision, and the button names the effect.
 */
export function ResolveDialog({ items, onClose, onDone }: ResolveDialogProps) {
  const [decision, setDecision] = useState<Decision | null>(null)
  const proposed = useRef(0)
  const [only] = items
  const decide = async ({ outboxId }: OutboxItem, form: FormData) => {
    if (decision === null) throw new Error('no decision is chosen')
    const { status } = await resolveHold(outboxId, {
      decision,
      reason: formText(form, 'reason'),
      ...(decision === 'DISPATCHED' ? { railReference: formText(form, 'railReference') } : {}),
    })
    if (status === 'PROPOSED') proposed.current += 1
  }
  const action = actionOf(decision, items)
  const choices = <DecisionChoices items={items} decision={decision} onChoose={setDecision} />
  if (items.length === 1 && only !== undefined) {
    const act = async (form: FormData) => {
      await decide(only, form)
      onDone(items)
      return proposed.current > 0 ? PROPOSED : `${only.instructionId} may be sent again.`
    }
    return (
      <Dialog title="Resolve the hold" onClose={onClose}>
        <ActionForm action={action} isReady={decision !== null} onDone={onClose} act={act}>
          {choices}
          <ReasonField />
        </ActionForm>
      </Dialog>
    )
  }
  return (
    <BulkActionDialog
      title={`Resolve ${items.length} holds`}
      action={action}
      isReady={decision !== null}
      all={items}
      act={decide}
      announcement={() => resultOf(items.length - proposed.current, proposed.current)}
      onClose={onClose}
      onDone={onDone}
    >
      {choices}
    </BulkActionDialog>
  )
}

interface DecisionChoicesProps {
  readonly items: readonly OutboxItem[]
  readonly decision: Decision | null
  readonly onChoose: (decision: Decision) => void
}

function DecisionChoices({ items, decision, onChoose }: DecisionChoicesProps) {
  const isOne = items.length === 1
  return (
    <>
      <MoneyList payments={items} />
      {items.some(({ outcomeUnknown }) => outcomeUnknown) ? (
        <p>
          <StateTag state="OUTCOME_UNKNOWN" /> {styleOfState('OUTCOME_UNKNOWN').meaning}{' '}
          <strong>Ask the rail {isOne ? `for ${items[0]?.outboxId}` : 'for each such payment'} first.</strong>
        </p>
      ) : null}
      <fieldset class="choices">
        <legend class="unseen">Decision</legend>
        {CHOICES.filter(({ decision: value }) => isOne || value !== 'DISPATCHED').map(({ decision: value, hint }) => (
          <label key={value}>
            <input
              type="radio"
              name="decision"
              value={value}
              required
              checked={decision === value}
              onChange={() => onChoose(value)}
            />
            <span>
              {DECISIONS[value].meaning}
              <span class="hint">{hint}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {isOne ? null : <p class="quiet">Each paid payment has its own reference: resolve it alone.</p>}
      {decision === 'DISPATCHED' ? (
        <div class="field">
          <label for="railReference">The rail’s reference</label>
          <input
            id="railReference"
            name="railReference"
            class="input mono"
            required
            maxLength={255}
            autocomplete="off"
          />
        </div>
      ) : null}
    </>
  )
}

/** Returns the sentence to announce for many holds. A retry of a payment with a known outcome applies at once. */
function resultOf(applied: number, proposed: number): string {
  const sent = applied === 0 ? '' : `${applied} may be sent again. `
  if (proposed === 0) return sent
  return `${sent}${proposed} ${plural(proposed, 'is', 'are')} proposed. Another person must approve ${plural(proposed, 'it', 'them')}.`
}

/**
 * Returns the text of the button. A retry applies at once to items with a known outcome and is only proposed for the
 * others.
 */
function actionOf(decision: Decision | null, items: readonly OutboxItem[]): string {
  if (decision === null) return 'Choose a decision'
  const many = items.length === 1 ? '' : ` (${items.length})`
  const unknown = items.filter(({ outcomeUnknown }) => outcomeUnknown).length
  if (decision !== 'RETRY' || unknown === items.length) return `Propose: ${DECISIONS[decision].short}${many}`
  if (unknown > 0) return `Send ${items.length - unknown} again now, propose ${unknown}`
  return `Send ${many === '' ? 'it' : 'them'} again now${many}`
}
