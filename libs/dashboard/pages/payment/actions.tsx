import { useState } from 'preact/hooks'
import type { OutboxItem } from '../../../http/index.js'
import { placeHold, redrive, resolveHold } from '../../data/api.js'
import { ActionForm } from '../../parts/ActionForm.js'
import { formText } from '../../parts/formText.js'
import { ReasonField, ReasonSheet } from '../../parts/ReasonSheet.js'
import { Sheet } from '../../parts/Sheet.js'

interface ItemSheetProps {
  readonly item: OutboxItem
  readonly onClose: () => void
  readonly onDone: () => void
}

const PROPOSED = 'Proposed. Somebody else must approve it before anything happens.'

export function HoldSheet({ item, onClose, onDone }: ItemSheetProps) {
  return (
    <ReasonSheet
      title="Hold this payment"
      action="Place the hold"
      explanation="Nobody may claim it until the hold is resolved. A lease that is in hand goes on, and may still end the payment."
      onClose={onClose}
      act={async (reason) => {
        await placeHold(item.outboxId, reason)
        onDone()
        return `${item.instructionId} is held.`
      }}
    />
  )
}

export function RedriveSheet({ item, onClose, onDone }: ItemSheetProps) {
  return (
    <ReasonSheet
      title="Redrive this payment"
      action="Propose the redrive"
      explanation="It is sent again as a payment of its own, which names this one. That moves money, so a second person must approve it."
      onClose={onClose}
      act={async (reason) => {
        await redrive(item.outboxId, reason)
        onDone()
        return PROPOSED
      }}
    />
  )
}

const DECISIONS = [
  {
    value: 'RETRY',
    label: 'Send it again',
    hint: 'It was not paid. Where the outcome is unknown, a second person must agree.',
  },
  {
    value: 'DISPATCHED',
    label: 'It was paid',
    hint: 'The rail confirms it, under a reference. Needs a second person.',
  },
  {
    value: 'FAILED',
    label: 'It was not paid, and shall not be',
    hint: 'Ends it without sending. Needs a second person.',
  },
] as const

type Decision = (typeof DECISIONS)[number]['value']

export function ResolveSheet({ item, onClose, onDone }: ItemSheetProps) {
  const [decision, setDecision] = useState<Decision>('RETRY')
  const act = async (form: FormData) => {
    const reason = formText(form, 'reason')
    const reference = formText(form, 'railReference')
    const { status } = await resolveHold(item.outboxId, {
      decision,
      reason,
      ...(decision === 'DISPATCHED' ? { railReference: reference } : {}),
    })
    onDone()
    return status === 'APPLIED' ? `${item.instructionId} may be sent again.` : PROPOSED
  }
  return (
    <Sheet title="Resolve the hold" onClose={onClose}>
      <ActionForm action="Decide" onDone={onClose} act={act}>
        {item.outcomeUnknown ? (
          <p>
            The rail may have acted, and nobody knows. <strong>Ask the rail for {item.outboxId} first.</strong>
          </p>
        ) : null}
        <fieldset class="choices">
          <legend class="unseen">Decision</legend>
          {DECISIONS.map(({ value, label, hint }) => (
            <label key={value}>
              <input
                type="radio"
                name="decision"
                value={value}
                checked={decision === value}
                onChange={() => setDecision(value)}
              />
              <span>
                {label}
                <span class="hint">{hint}</span>
              </span>
            </label>
          ))}
        </fieldset>
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
        <ReasonField />
      </ActionForm>
    </Sheet>
  )
}
