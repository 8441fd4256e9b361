import { Glyph } from './Glyph.js'
import { lookOf } from './states.js'

interface StateTagProps {
  readonly state: string
  /** Shorter word where there is no room for its own. */
  readonly short?: string
}

export function StateTag({ state, short }: StateTagProps) {
  const { word, glyph, tone, meaning } = lookOf(state)
  return (
    <span class={`state tone-${tone}`} title={meaning} data-state={state}>
      <Glyph name={glyph} />
      {short ?? word}
    </span>
  )
}
