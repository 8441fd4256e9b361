/** SVG paths of the icons. Characters are not used as icons, because a font may lack them. */
const PATHS = {
  done: 'M3 8.5l3.2 3.2L13 4.6',
  failed: 'M4 4l8 8M12 4l-8 8',
  flight: 'M4.5 3l8 5-8 5z',
  due: 'M8 3.2a4.8 4.8 0 1 0 0 9.6 4.8 4.8 0 0 0 0-9.6z',
  scheduled: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 5v3.2l2.2 1.6',
  blocked: 'M3 4.5h10M3 8h10M3 11.5h6',
  held: 'M5.5 3.5v9M10.5 3.5v9',
  expired: 'M4 2.5h8M4 13.5h8M4.8 2.5c0 3 6.4 4 6.4 5.5s-6.4 2.5-6.4 5.5M11.2 2.5c0 3-6.4 4-6.4 5.5s6.4 2.5 6.4 5.5',
  retry: 'M12.8 8a4.8 4.8 0 1 1-1.5-3.5M12.9 2.2v2.9h-2.9',
  warning: 'M8 2.2l6.2 11.2H1.8zM8 6.3v3.2M8 11.4v.2',
  info: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM8 7.2v3.6M8 5v.2',
  unknown: 'M5.8 6a2.3 2.3 0 1 1 3.4 2c-.8.5-1.2.9-1.2 1.9M8 12.2v.2',
  search: 'M7 2.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4zM10.2 10.2l3.3 3.3',
  copy: 'M5.5 5.5h7.5v7.5H5.5zM3 10.5v-7.5h7.5',
  close: 'M4 4l8 8M12 4l-8 8',
  overview: 'M2.5 13.5v-4h2.6v4zM6.7 13.5v-7h2.6v7zM10.9 13.5v-11h2.6v11z',
  payments: 'M2 4.5h12v7H2zM2 7h12M4.5 9.5h2.5',
  dead: 'M3 5.5h10v8H3zM3 5.5l1.5-3h7l1.5 3M6.3 8l3.4 3.4M9.7 8l-3.4 3.4',
  dispatch: 'M2 8h7.5M6.5 5l3 3-3 3M13 3v10',
  scheduler: 'M3 4h10v9.5H3zM3 7h10M5.5 2.5v2.5M10.5 2.5v2.5',
  inbox: 'M2.5 9l2-6h7l2 6v4.5h-11zM2.5 9h3.3l.7 1.8h3l.7-1.8h3.3',
  leases: 'M7.4 8a2.7 2.7 0 1 0-5.4 0 2.7 2.7 0 1 0 5.4 0zM7.4 8h6.6v2.6M11.2 8v2.2',
  limits: 'M2.5 11.5a5.5 5.5 0 0 1 11 0M8 11.5l3-4.2M2.5 13.5h11',
  reconciliation: 'M2.5 5.5h9M9 3l2.5 2.5L9 8M13.5 10.5h-9M7 8l-2.5 2.5L7 13',
  databases: 'M3 4.2c0-2.2 10-2.2 10 0v7.6c0 2.2-10 2.2-10 0zM3 4.2c0 2.2 10 2.2 10 0M3 8c0 2.2 10 2.2 10 0',
  more: 'M3.5 8h.2M8 8h.2M12.5 8h.2',
  sun: 'M8 5.2a2.8 2.8 0 1 0 0 5.6 2.8 2.8 0 0 0 0-5.6zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9',
  moon: 'M13 9.6A5.6 5.6 0 1 1 6.4 3a4.5 4.5 0 0 0 6.6 6.6z',
  keys: 'M2 4.5h12v7H2zM4.5 7h.2M7 7h.2M9.5 7h.2M11.8 7h.2M5.5 9.3h5',
  leave: 'M6.5 3h-3v10h3M9 5l3 3-3 3M12 8H6',
  link: 'M4 8h8M9 5l3 3-3 3',
} as const

export type IconName = keyof typeof PATHS

/** Icon beside a word. Screen readers skip it. */
export function Icon({ name, size = 14 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill={name === 'flight' ? 'currentColor' : 'none'}
      stroke="currentColor"
      stroke-width={name === 'held' || name === 'more' ? 2.4 : 1.6}
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={PATHS[name]} />
    </svg>
  )
}
