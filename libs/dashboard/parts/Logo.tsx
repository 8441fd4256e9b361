export function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 16 16" aria-hidden="true">
      <rect width="16" height="16" rx="3.5" fill="var(--accent)" />
      <g stroke="var(--on-accent)" stroke-width="1.6" stroke-linecap="round">
        <path d="M3.5 4.5h6M3.5 8h9M3.5 11.5h4" />
      </g>
      <g fill="var(--on-accent)">
        <circle cx="12" cy="4.5" r="1.1" />
        <circle cx="10" cy="11.5" r="1.1" />
      </g>
    </svg>
  )
}
