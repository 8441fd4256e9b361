/** What a fleet says about its databases, one event per fact. Nothing listens by default. No event holds a URL. */
export type PlatformEvent =
  | { readonly type: 'databaseAdded'; readonly database: string }
  | { readonly type: 'databaseRemoved'; readonly database: string }
  /** Discovery failed, or said something that cannot be. The last good set stands. */
  | { readonly type: 'discoveryFailed'; readonly error: unknown }
  /** A dispatcher of this process serves the same database already; this one takes over when that has let go. */
  | { readonly type: 'servedElsewhere'; readonly database: string }
  | { readonly type: 'databaseDown'; readonly database: string }
  | { readonly type: 'databaseUp'; readonly database: string }
  | { readonly type: 'fault'; readonly database: string; readonly worker: string; readonly error: unknown }

export type OnPlatformEvent = (event: PlatformEvent) => void
