import { announce } from '../app/announce.js'
import { shortId } from '../data/format.js'
import { Icon } from './Icon.js'

interface IdProps {
  readonly value: string
  /** Kind of the id, for the label of the copy button, such as `outbox id`. */
  readonly label: string
  readonly href?: string
  /** Whether to show the whole id. */
  readonly whole?: boolean
}

export function Id({ value, label, href, whole = false }: IdProps) {
  const text = whole ? value : shortId(value)
  return (
    <span class="id">
      {href === undefined ? (
        <span title={value}>{text}</span>
      ) : (
        <a href={href} title={value}>
          {text}
        </a>
      )}
      <button type="button" class="copy" aria-label={`Copy the ${label}`} onClick={() => void copy(value, label)}>
        <Icon name="copy" size={12} />
      </button>
    </span>
  )
}

/**
 * Copies the value. On pages served by another machine over plain http, browsers offer no clipboard, so asks the reader
 * to select the text.
 */
async function copy(value: string, label: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(value)
    announce(`The ${label} was copied.`)
  } catch {
    announce('This browser does not let the page copy. Select the text instead.')
  }
}
