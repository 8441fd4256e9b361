import type { ComponentChildren } from 'preact'
import type { Tone } from './states.js'

interface TileProps {
  readonly name: string
  readonly value: string
  readonly href?: string
  readonly tone?: Tone | undefined
  readonly children: ComponentChildren
}

/** Number with its name and a note, inside `dl.figures`. With `href`, the whole tile is the link. */
export function Tile({ name, value, href, tone, children }: TileProps) {
  const attention = tone === undefined ? '' : `tone-${tone} loud`
  return (
    <div class={`figure ${attention}`}>
      <dt>{href === undefined ? name : <a href={href}>{name}</a>}</dt>
      <dd class="figure-value">{value}</dd>
      <dd class="figure-note">{children}</dd>
    </div>
  )
}
