import { effect, signal } from '@preact/signals'

/** Light or dark: as the system says, unless this browser was told otherwise. */
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

/** Going back to what the system says forgets the choice, so that the page follows the evening again. */
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
