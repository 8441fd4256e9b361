import type { ComponentChildren, JSX } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

interface VirtualListProps<T extends object> {
  readonly label: string
  readonly rows: readonly T[]
  readonly keyOf: (row: T) => string
  readonly columns: readonly string[]
  /**
   * Returns the cells in the order of the columns; the first contains the link. Cells are cached per row, so they must
   * depend only on the row.
   */
  readonly cells: (row: T) => readonly ComponentChildren[]
  readonly className: string
  readonly onNearEnd: () => void
}

/** Rows drawn beyond each edge, so that fast scrolling shows no gaps. */
const OVERSCAN = 8
const NEAR_END_ROWS = 60

/**
 * List that draws only the visible rows, so that ten thousand payments cost as much as fifty. All rows have the height
 * `--row` of the style sheet, so that positions need no measuring.
 */
export function VirtualList<T extends object>(props: VirtualListProps<T>) {
  const { label, rows, keyOf, columns, cells, className, onNearEnd } = props
  const scroller = useRef<HTMLDivElement>(null)
  const [view, setView] = useState({ first: 0, last: 40, rowHeight: 40 })

  const measure = () => {
    const element = scroller.current
    if (element === null) return
    const rowHeight = Number.parseFloat(getComputedStyle(element).getPropertyValue('--row')) || 40
    const first = Math.max(0, Math.floor(element.scrollTop / rowHeight) - OVERSCAN)
    const last = Math.ceil((element.scrollTop + element.clientHeight) / rowHeight) + OVERSCAN
    setView((was) =>
      was.first === first && was.last === last && was.rowHeight === rowHeight ? was : { first, last, rowHeight },
    )
    if (last >= rows.length - NEAR_END_ROWS) onNearEnd()
  }

  const latest = useRef(measure)
  latest.current = measure
  useLayoutEffect(measure, [rows.length])
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => latest.current())
    if (scroller.current !== null) observer.observe(scroller.current)
    return () => observer.disconnect()
  }, [])

  // Caches the element of each row, so that only newly visible rows are rendered.
  const cache = useRef(new WeakMap<T, { readonly place: number; readonly element: JSX.Element }>())
  const drawn = (row: T, index: number): JSX.Element => {
    const place = index * view.rowHeight
    const known = cache.current.get(row)
    if (known?.place === place) return known.element
    const element = (
      <div
        key={keyOf(row)}
        class="vlist-row"
        role="row"
        aria-rowindex={index + 2}
        style={{ transform: `translateY(${place}px)` }}
      >
        {cells(row).map((cell, column) => (
          <span key={columns[column]} role="cell">
            {cell}
          </span>
        ))}
      </div>
    )
    cache.current.set(row, { place, element })
    return element
  }

  return (
    <div class={`vlist ${className}`} role="table" aria-label={label} aria-rowcount={rows.length + 1}>
      <div role="rowgroup">
        <div class="vlist-head" role="row" aria-rowindex={1}>
          {columns.map((column) => (
            <span key={column} role="columnheader">
              {column}
            </span>
          ))}
        </div>
      </div>
      <div
        ref={scroller}
        class="vlist-scroll"
        role="rowgroup"
        tabIndex={0}
        aria-label={`Rows of ${label}`}
        onScroll={measure}
        onKeyDown={moveFocus}
      >
        <div class="vlist-canvas" role="presentation" style={{ height: `${rows.length * view.rowHeight}px` }}>
          {rows.slice(view.first, view.last).map((row, offset) => drawn(row, view.first + offset))}
        </div>
      </div>
    </div>
  )
}

/** Moves between rows with the arrow keys, j and k. */
function moveFocus(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[event.key]
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
  if (!(event.currentTarget instanceof HTMLElement)) return
  if (moveInList(event.currentTarget, step)) event.preventDefault()
}

/**
 * Focuses the first link or button of the next row, or of the first row if no row has the focus. Returns false at
 * either end.
 */
export function moveInList(list: Element, step: number): boolean {
  const rows = [...list.querySelectorAll('.vlist-row, tbody tr')].filter((row) => targetIn(row) !== null)
  const at = rows.findIndex((row) => row.contains(document.activeElement))
  const next = rows[at === -1 ? 0 : at + step]
  if (next === undefined) return false
  targetIn(next)?.focus({ preventScroll: true })
  next.scrollIntoView({ block: 'nearest' })
  return true
}

function targetIn(row: Element): HTMLElement | null {
  return row.querySelector<HTMLElement>('a, button')
}
