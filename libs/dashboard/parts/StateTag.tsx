import { Glyph } from './Glyph.js'
import { lookOf } from './states.js'

export function StateTag({ state }: { readonly state: string }) {
  const { word, glyph, tone, meaning } = lookOf(state)
  return (
    <span class={`state tone-${tone}`} title={meaning} data-state={state}>
      <Glyph name={glyph} />
      {word}
    </span>
  )
}
