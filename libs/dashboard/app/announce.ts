import { signal } from '@preact/signals'
import { whenQuiet } from '../data/clock.js'

/**
 * Result of the last action. The page shows it for 6 s in its only live region, so that screen readers read it out
 * once.
 */
export const announcement = signal('')

const SHOWN_MS = 6_000
const clear = whenQuiet(SHOWN_MS, () => (announcement.value = ''))

export function announce(text: string): void {
  announcement.value = text
  clear()
}
