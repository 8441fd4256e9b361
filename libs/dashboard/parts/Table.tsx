import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

export interface TableProps {
  readonly label: string
  /** Headings. An object marks a column of numbers, an empty text the column of actions. */
  readonly columns: readonly (string | { readonly number: string })[]
  /** Whether a phone shows each row as a card. @default true */
  readonly cards?: boolean
  readonly children: ComponentChildren
}

/** Table that scrolls sideways if it is wider than its container. Only a wider table can get the keyboard focus. */
export function Table({ label, columns, cards = true, children }: TableProps) {
  const frame = useRef<HTMLDivElement>(null)
  const [isWider, setIsWider] = useState(false)
  useLayoutEffect(() => {
    const { current } = frame
    if (current === null) return undefined
    const observer = new ResizeObserver(() => setIsWider(current.scrollWidth > current.clientWidth))
    observer.observe(current)
    if (current.firstElementChild !== null) observer.observe(current.firstElementChild)
    return () => observer.disconnect()
  }, [])
  return (
    <div ref={frame} class="table-wrap" {...(isWider ? { tabIndex: 0, role: 'group', 'aria-label': label } : {})}>
      <table class={cards ? 'table-cards' : ''} aria-label={label}>
        <thead>
          <tr>
            {columns.map((column) =>
              typeof column === 'object' ? (
                <th key={column.number} class="numeric">
                  {column.number}
                </th>
              ) : (
                <th key={column}>{column === '' ? <span class="unseen">Actions</span> : column}</th>
              ),
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  )
}
