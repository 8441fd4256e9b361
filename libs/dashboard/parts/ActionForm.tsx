import type { ComponentChildren } from 'preact'
import { ProblemNote } from './ProblemNote.js'
import { useAction } from './useAction.js'

interface ActionFormProps {
  readonly action: string
  /** Runs the action and resolves with a sentence to announce; empty for none. */
  readonly act: (form: FormData) => Promise<string>
  readonly onDone?: () => void
  /** Whether the button is enabled. @default true */
  readonly isReady?: boolean
  readonly beside?: ComponentChildren
  readonly children: ComponentChildren
}

/** Form for an action, which runs once at a time. Shows a refusal and keeps the values. */
export function ActionForm({ action, act, onDone, isReady = true, beside, children }: ActionFormProps) {
  const { isRunning, problem, run } = useAction()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (isRunning || !(event.currentTarget instanceof HTMLFormElement)) return
    const form = new FormData(event.currentTarget)
    run(async () => {
      const announcement = await act(form)
      onDone?.()
      return announcement
    })
  }
  return (
    <form class="form" onSubmit={submit}>
      {children}
      {problem === null ? null : <ProblemNote problem={problem} />}
      <div class="buttons">
        {beside}
        <button type="submit" class="button primary" disabled={isRunning || !isReady}>
          {action}
        </button>
      </div>
    </form>
  )
}
