/** A bar of parts that make a whole. The words beside it say the same, so it is silent. */
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
