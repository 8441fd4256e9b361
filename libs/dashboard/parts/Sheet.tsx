import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Glyph } from './Glyph.js'

interface SheetProps {
  readonly title: string
  readonly onClose: () => void
  readonly children: ComponentChildren
}

/** A dialog of the platform: it keeps the focus inside, closes with Escape, and gives the focus back. */
export function Sheet({ title, onClose, children }: SheetProps) {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const opener = document.activeElement
    dialog.current?.showModal()
    return () => {
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <dialog
      ref={dialog}
      class="sheet"
      aria-label={title}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === dialog.current) dialog.current?.close()
      }}
    >
      <header>
        <h2>{title}</h2>
        <button type="button" class="button plain" aria-label="Close" onClick={() => dialog.current?.close()}>
          <Glyph name="close" />
        </button>
      </header>
      <div class="body">{children}</div>
    </dialog>
  )
}
