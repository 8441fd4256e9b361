import { Icon } from './Icon.js'
import { styleOfState } from './states.js'

interface StateTagProps {
  readonly state: string
  readonly short?: string
}

export function StateTag({ state, short }: StateTagProps) {
  const { word, icon, tone, meaning } = styleOfState(state)
  return (
    <span class={`state tone-${tone}`} title={meaning} data-state={state}>
      <Icon name={icon} />
      {short ?? word}
    </span>
  )
}
