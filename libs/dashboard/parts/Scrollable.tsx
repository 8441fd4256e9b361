import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'

/** Scrolls content that is wider than its container. Only wider content can get the keyboard focus. */
export function Scrollable({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  const element = useRef<HTMLDivElement>(null)
  const [isWider, setIsWider] = useState(false)
  useLayoutEffect(() => {
    const { current } = element
    if (current === null) return undefined
    const observer = new ResizeObserver(() => setIsWider(current.scrollWidth > current.clientWidth))
    observer.observe(current)
    if (current.firstElementChild !== null) observer.observe(current.firstElementChild)
    return () => observer.disconnect()
  }, [])
  return (
    <div ref={element} class="table-wrap" {...(isWider ? { tabIndex: 0, role: 'group', 'aria-label': label } : {})}>
      {children}
    </div>
  )
}
