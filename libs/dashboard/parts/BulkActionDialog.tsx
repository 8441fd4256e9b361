import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { announce } from '../app/announce.js'
import { forEachInSequence, type BulkResult } from '../data/forEachInSequence.js'
import { count, plural } from '../data/format.js'
import { ActionForm } from './ActionForm.js'
import { Dialog } from './Dialog.js'
import { ProblemNote } from './ProblemNote.js'
import { ReasonField } from './ReasonDialog.js'

interface Named {
  readonly outboxId: string
  readonly instructionId: string
}

interface BulkActionDialogProps<T extends Named> {
  readonly title: string
  readonly action: string
  readonly all: readonly T[]
  readonly act: (one: T, form: FormData) => Promise<unknown>
  /** Returns the sentence to announce when no item was refused. */
  readonly announcement: () => string
  /** Whether to ask for a reason, which is recorded for each item. @default true */
  readonly needsReason?: boolean
  /** Whether the button is enabled. @default true */
  readonly isReady?: boolean
  readonly onClose: () => void
  /** Called with the changed items. */
  readonly onDone: (done: readonly T[]) => void
  readonly children: ComponentChildren
}

/**
 * Runs one action on every item, with one request each, so that the server decides and records each item separately.
 * Shows the progress, can be stopped, and lists the refused items at the end.
 */
export function BulkActionDialog<T extends Named>(props: BulkActionDialogProps<T>) {
  const { title, action, all, act, announcement, needsReason = true, isReady = true, onClose, onDone, children } = props
  const [progress, setProgress] = useState<BulkResult<T> | null>(null)
  const [isEnded, setIsEnded] = useState(false)
  const [stop] = useState(() => new AbortController())
  // Closing the dialog stops the action.
  useEffect(() => () => stop.abort(), [])
  const run = async (form: FormData) => {
    setProgress({ done: [], refused: [] })
    const result = await forEachInSequence(all, (one) => act(one, form), stop.signal, setProgress)
    onDone(result.done)
    setProgress(result)
    setIsEnded(true)
    if (result.done.length < all.length) return announce(`${count(result.done.length)} of ${count(all.length)} done.`)
    announce(announcement())
    onClose()
  }
  return (
    <Dialog title={title} onClose={onClose}>
      {progress === null ? (
        <ActionForm
          action={action}
          isReady={isReady}
          act={async (form) => {
            void run(form)
            return ''
          }}
        >
          {children}
          {needsReason ? <ReasonField /> : null}
        </ActionForm>
      ) : (
        <Progress all={all} result={progress} isEnded={isEnded} onStop={() => stop.abort()} onClose={onClose} />
      )}
    </Dialog>
  )
}

interface ProgressProps<T> {
  readonly all: readonly T[]
  readonly result: BulkResult<T>
  readonly isEnded: boolean
  readonly onStop: () => void
  readonly onClose: () => void
}

function Progress<T extends Named>({ all, result, isEnded, onStop, onClose }: ProgressProps<T>) {
  const { done, refused, failure } = result
  const button = useRef<HTMLButtonElement>(null)
  // Focuses the new button, because the button that had the focus no longer exists.
  useLayoutEffect(() => button.current?.focus(), [isEnded])
  const tried = done.length + refused.length
  const failed = failure === undefined ? undefined : all[tried]
  const untried = all.length - tried - (failed === undefined ? 0 : 1)
  return (
    <div class="form">
      <progress aria-label="Progress" max={all.length} value={tried} />
      <p>
        {count(done.length)} of {count(all.length)} done
        {refused.length === 0 ? '' : `, ${count(refused.length)} refused`}
        {failed === undefined ? '' : `, ${failed.instructionId} failed`}
        {isEnded && untried > 0 ? `, ${count(untried)} not tried` : ''}.
      </p>
      {failure === undefined ? null : <ProblemNote problem={failure} />}
      {isEnded && refused.length > 0 ? (
        <>
          <p role="alert">
            <strong>
              {refused.length} of {all.length} {plural(refused.length, 'was', 'were')} refused.
            </strong>
          </p>
          <ul class="money-list" aria-label="Refused">
            {refused.map(({ one, problem: { code, title, detail } }) => (
              <li key={one.outboxId}>
                <span>{one.instructionId}</span>
                <code>{code}</code>
                <div class="quiet">{detail ?? title}</div>
              </li>
            ))}
          </ul>
        </>
      ) : null}
      <div class="buttons">
        <button ref={button} type="button" class="button" onClick={isEnded ? onClose : onStop}>
          {isEnded ? 'Close' : 'Stop'}
        </button>
      </div>
    </div>
  )
}
