import { announce } from '../app/announce.js'
import { shortId } from '../data/format.js'
import { Icon } from './Icon.js'

interface IdProps {
  readonly value: string
  /** What it is, for the button's name: `outbox id`. */
  readonly label: string
  readonly href?: string
  /** Shown whole, where there is room. */
  readonly whole?: boolean
}

/** An id one can read, follow and copy. */
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

/** Without the clipboard (plain http from another machine) the text can still be selected. */
async function copy(value: string, label: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(value)
    announce(`The ${label} was copied.`)
  } catch {
    announce('This browser does not let the page copy. Select the text instead.')
  }
}
