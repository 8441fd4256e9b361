import type { ComponentChildren } from 'preact'
import { inTurn } from '../data/inTurn.js'
import { ActionForm } from './ActionForm.js'
import { formText } from './formText.js'
import { ReasonField } from './ReasonSheet.js'
import { Sheet } from './Sheet.js'

interface ManySheetProps<T> {
  readonly title: string
  /** On the button. */
  readonly action: string
  readonly explanation: ComponentChildren
  readonly all: readonly T[]
  readonly act: (one: T, reason: string) => Promise<unknown>
  /** Said when it is done. */
  readonly said: string
  /** Each keeps the same reason. @default true */
  readonly needsReason?: boolean
  readonly onClose: () => void
  readonly onDone: () => void
  /** Below the explanation. */
  readonly children?: ComponentChildren
}

/** One action on everything that is shown: a request each, so that one that is refused stops none of the others. */
export function ManySheet<T>(props: ManySheetProps<T>) {
  const { title, action, explanation, all, act, said, needsReason = true, onClose, onDone, children } = props
  const doAll = async (form: FormData) => {
    try {
      await inTurn(all, (one) => act(one, formText(form, 'reason')))
      return said
    } finally {
      onDone()
    }
  }
  return (
    <Sheet title={title} onClose={onClose}>
      <ActionForm action={action} onDone={onClose} act={doAll}>
        <p>{explanation}</p>
        {children}
        {needsReason ? <ReasonField /> : null}
      </ActionForm>
    </Sheet>
  )
}
