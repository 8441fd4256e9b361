/**
 * Part of the bar, as wide as its share of the whole. Screen readers skip the bar, because the text beside it has the
 * same numbers.
 */
interface Part {
  readonly name: string
  readonly count: number
  readonly tone: string
}

export function ShareBar({ parts }: { readonly parts: readonly Part[] }) {
  const whole = parts.reduce((sum, { count }) => sum + count, 0)
  return (
    <div class="sharebar" aria-hidden="true">
      {parts
        .filter(({ count }) => count > 0)
        .map(({ name, count, tone }) => (
          <span key={name} class={`part tone-${tone} part-${name}`} style={{ flexGrow: count / whole }} />
        ))}
    </div>
  )
}
