import type { ComponentChildren } from 'preact'
import { ProblemNote } from './ProblemNote.js'
import { useAction } from './useAction.js'

interface ActionFormProps {
  /** On the button. */
  readonly action: string
  /** Does it; resolves with the sentence that says so, or with none. */
  readonly act: (form: FormData) => Promise<string>
  readonly onDone?: () => void
  /** Whether the button can be pressed. @default true */
  readonly isReady?: boolean
  /** Another button, beside that of the form. */
  readonly beside?: ComponentChildren
  readonly children: ComponentChildren
}

/** A form that changes something: once at a time, and a refusal is shown where it was asked for, with nothing lost. */
export function ActionForm({ action, act, onDone, isReady = true, beside, children }: ActionFormProps) {
  const { isRunning, problem, run } = useAction()
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    if (isRunning || !(event.currentTarget instanceof HTMLFormElement)) return
    const form = new FormData(event.currentTarget)
    run(async () => {
      const said = await act(form)
      onDone?.()
      return said
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
