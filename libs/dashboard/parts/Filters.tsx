import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { navigations } from '../app/router.js'

interface FiltersProps {
  /** Filters of the list by name. */
  readonly filter: object
  /** Search field. A phone shows it beside the button that opens the filters. */
  readonly search?: ComponentChildren
  readonly children: ComponentChildren
}

/** Filters that belong to another filter. The button counts both as one. */
const PART_OF: Readonly<Record<string, string>> = {
  from: 'range',
  to: 'range',
  amountMin: 'currency',
  amountMax: 'currency',
}

/** Filters of a list. On a phone a button with the number of active filters opens them, so that rows fit the screen. */
export function Filters({ filter, search, children }: FiltersProps) {
  const [isOpen, setIsOpen] = useState(false)
  // Counts neither the search, which is always visible, nor the order, which filters nothing.
  const names = Object.keys(filter).filter((name) => name !== 'q' && name !== 'sort')
  const active = new Set(names.map((name) => PART_OF[name] ?? name)).size
  return (
    <search key={navigations.value} class="filters folded">
      {search}
      <button type="button" class="button" aria-expanded={isOpen} onClick={() => setIsOpen(!isOpen)}>
        Filters{active === 0 ? '' : ` (${active})`}
      </button>
      <div class="fields">{children}</div>
    </search>
  )
}
