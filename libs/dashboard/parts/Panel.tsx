import type { ComponentChildren } from 'preact'

interface PanelProps {
  readonly title: string
  readonly aside?: ComponentChildren
  /** Whether to remove the padding, for tables with their own margins. */
  readonly flush?: boolean
  readonly children: ComponentChildren
}

export function Panel({ title, aside, flush = false, children }: PanelProps) {
  return (
    <section class="panel" aria-label={title}>
      <header>
        <h2>{title}</h2>
        {aside === undefined ? null : <div class="aside">{aside}</div>}
      </header>
      <div class={flush ? 'body flush' : 'body'}>{children}</div>
    </section>
  )
}
