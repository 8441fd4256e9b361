import { signal } from '@preact/signals'
import { whenQuiet } from '../data/clock.js'

/** Result of the last action, shown for 6 s and read out once by screen readers. The only live region of the page. */
export const announcement = signal('')

const SHOWN_MS = 6_000
const clear = whenQuiet(SHOWN_MS, () => (announcement.value = ''))

export function announce(text: string): void {
  announcement.value = text
  clear()
}
