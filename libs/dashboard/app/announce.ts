import { signal } from '@preact/signals'
import { whenQuiet } from '../data/clock.js'

/** What was just done, in one sentence: shown for a moment, and read out once. The only live region of the page. */
export const announcement = signal('')

const SHOWN_MS = 6_000
const clear = whenQuiet(SHOWN_MS, () => (announcement.value = ''))

export function say(text: string): void {
  announcement.value = text
  clear()
}
