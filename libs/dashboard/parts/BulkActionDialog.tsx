import type { ComponentChildren } from 'preact'
import { forEachInSequence } from '../data/forEachInSequence.js'
import { ActionForm } from './ActionForm.js'
import { formText } from './formText.js'
import { ReasonField } from './ReasonDialog.js'
import { Dialog } from './Dialog.js'

interface BulkActionDialogProps<T> {
  readonly title: string
  readonly action: string
  readonly explanation: ComponentChildren
  readonly all: readonly T[]
  readonly act: (one: T, reason: string) => Promise<unknown>
  readonly announcement: string
  /** Whether to ask for a reason, which is recorded for each item. @default true */
  readonly needsReason?: boolean
  readonly onClose: () => void
  readonly onDone: () => void
  readonly children?: ComponentChildren
}

/** Runs one action on every item, one request each. A refusal does not stop the others. */
export function BulkActionDialog<T>(props: BulkActionDialogProps<T>) {
  const { title, action, explanation, all, act, announcement, needsReason = true, onClose, onDone, children } = props
  const doAll = async (form: FormData) => {
    try {
      await forEachInSequence(all, (one) => act(one, formText(form, 'reason')))
      return announcement
    } finally {
      onDone()
    }
  }
  return (
    <Dialog title={title} onClose={onClose}>
      <ActionForm action={action} onDone={onClose} act={doAll}>
        <p>{explanation}</p>
        {children}
        {needsReason ? <ReasonField /> : null}
      </ActionForm>
    </Dialog>
  )
}
