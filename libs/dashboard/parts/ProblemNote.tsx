import type { ShownProblem } from '../data/client.js'
import { Icon } from './Icon.js'

interface ProblemNoteProps {
  readonly problem: ShownProblem
  readonly onRetry?: () => void
}

/** Shows a problem in the server's words, with the code and request id to find it in the log. */
export function ProblemNote({ problem, onRetry }: ProblemNoteProps) {
  const { title, detail, code, requestId } = problem
  return (
    <div class="note tone-bad" role="alert">
      <Icon name="warning" />
      <div>
        <strong>{title}.</strong> {detail}
        <p class="quiet">
          <code>{code}</code>
          {requestId === undefined ? null : (
            <>
              {' '}
              · request <code>{requestId}</code>
            </>
          )}
        </p>
      </div>
      {onRetry === undefined ? null : (
        <button type="button" class="button small" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  )
}
