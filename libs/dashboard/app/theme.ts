import { effect, signal } from '@preact/signals'

/** Theme of the page: the system's, unless the reader chose the other one in this browser. */
type Theme = 'light' | 'dark'

const KEY = 'symphony.theme'
const system = matchMedia('(prefers-color-scheme: dark)')

export const theme = signal<Theme>(chosen() ?? systemTheme())

export function startTheme(): void {
  system.addEventListener('change', () => (theme.value = chosen() ?? systemTheme()))
  effect(() => {
    document.documentElement.dataset['theme'] = theme.value
  })
}

/** Switches the theme. Choosing the system's theme deletes the choice, so that the page follows the system again. */
export function toggleTheme(): void {
  theme.value = theme.peek() === 'dark' ? 'light' : 'dark'
  if (theme.peek() === systemTheme()) localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme.peek())
}

function chosen(): Theme | undefined {
  const kept = localStorage.getItem(KEY)
  return kept === 'light' || kept === 'dark' ? kept : undefined
}

function systemTheme(): Theme {
  return system.matches ? 'dark' : 'light'
}
