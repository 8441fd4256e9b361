export function Skeleton({ lines }: { readonly lines: number }) {
  return (
    <div class="skeleton" aria-busy="true">
      <span class="unseen">Loading</span>
      {Array.from({ length: lines }, (_, line) => (
        <i key={line} />
      ))}
    </div>
  )
}
