import { signal } from '@preact/signals'
import { whenQuiet } from '../data/clock.js'
import { moveInList } from '../parts/VirtualList.js'
import { visibleNavItems } from './navItems.js'
import { navigate, pathTo, route } from './router.js'
import { toggleTheme } from './theme.js'

export const keysAreShown = signal(false)

/** Time after `g` within which the letter of a page must follow. */
const SEQUENCE_MS = 1_500

let awaitsPage = false
const forgetSequence = whenQuiet(SEQUENCE_MS, () => (awaitsPage = false))

export function startKeys(): void {
  addEventListener('keydown', onKey)
}

function onKey(event: KeyboardEvent): void {
  // A focused list has already handled the key.
  if (event.defaultPrevented) return
  if (event.ctrlKey || event.metaKey || event.altKey) return
  // An open dialog gets all keys, and the browser closes it on Escape.
  if (document.querySelector('dialog[open]') !== null) return
  if (isTyping(event.target)) {
    // Leaves the field, so that letters work as shortcuts again.
    if (event.key === 'Escape') event.target.blur()
    return
  }
  if (awaitsPage) {
    awaitsPage = false
    const item = visibleNavItems().find(({ key }) => key === event.key)
    if (item === undefined) return
    event.preventDefault()
    return navigate(pathTo(item.path === '' ? [] : [item.path]))
  }
  const act = ACTIONS[event.key]
  if (act === undefined) return
  event.preventDefault()
  act()
}

const ACTIONS: Readonly<Record<string, () => void>> = {
  g: () => {
    awaitsPage = true
    forgetSequence()
  },
  '/': focusSearch,
  '?': () => (keysAreShown.value = true),
  t: toggleTheme,
  j: () => moveInPage(1),
  k: () => moveInPage(-1),
  x: selectRow,
}

/** Moves in the list or tables of this page, also if they do not have the focus, such as after `g p`. */
function moveInPage(step: number): void {
  const list = document.querySelector('.vlist-scroll') ?? document.querySelector('main')
  if (list !== null) moveInList(list, step)
}

/** Selects or deselects the row with the focus. */
function selectRow(): void {
  const row = document.activeElement?.closest('.vlist-row, tr')
  row?.querySelector<HTMLInputElement>('[data-select]')?.click()
}

/** Focuses the search field of this page. If there is none, opens the payments page and focuses its search field. */
function focusSearch(): void {
  const field = document.querySelector<HTMLInputElement>('[data-search]')
  if (field !== null) return field.select()
  wantsSearch.value = true
  navigate(pathTo(['payments']))
}

/** Whether the next page with a search field must focus it. */
export const wantsSearch = signal(false)

function isTyping(target: EventTarget | null): target is HTMLElement {
  if (target instanceof HTMLInputElement && target.type === 'checkbox') return false
  return target instanceof HTMLElement && /^(?:INPUT|TEXTAREA|SELECT)$/.test(target.tagName)
}

export function currentPage(): string {
  return route.value.parts[0] ?? ''
}
