import type { ComponentChildren } from 'preact'
import { ActionForm } from './ActionForm.js'
import { formText } from './formText.js'
import { Dialog } from './Dialog.js'

interface ReasonDialogProps {
  readonly title: string
  readonly action: string
  readonly explanation: ComponentChildren
  readonly onClose: () => void
  /** Runs the action and resolves with a sentence to announce. */
  readonly act: (reason: string) => Promise<string>
}

/** Asks for the reason of an action, which the ledger keeps for ever. */
export function ReasonDialog({ title, action, explanation, onClose, act }: ReasonDialogProps) {
  return (
    <Dialog title={title} onClose={onClose}>
      <ActionForm action={action} onDone={onClose} act={(form) => act(formText(form, 'reason'))}>
        <p>{explanation}</p>
        <ReasonField />
      </ActionForm>
    </Dialog>
  )
}

export function ReasonField() {
  return (
    <div class="field">
      <label for="reason">Reason</label>
      <textarea id="reason" name="reason" class="input" required maxLength={1_000} rows={3} />
      <span class="hint">Kept in the ledger for ever, with your name.</span>
    </div>
  )
}
