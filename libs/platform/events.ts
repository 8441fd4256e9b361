/** What a fleet says about its databases, one event per fact. Nothing listens by default. No event holds a URL. */
export type PlatformEvent =
  /** Discovery names a database that it did not name before. */
  | { readonly type: 'databaseAdded'; readonly database: string }
  /** It no longer names one. */
  | { readonly type: 'databaseRemoved'; readonly database: string }
  /** Discovery failed, or said something that cannot be. The last good set stands. */
  | { readonly type: 'discoveryFailed'; readonly error: unknown }
  /** A dispatcher of this process serves the same database already; this one takes over when that has let go. */
  | { readonly type: 'servedElsewhere'; readonly database: string }
  /** A round failed because the database does not answer; it is asked again later. */
  | { readonly type: 'databaseDown'; readonly database: string }
  /** It answers again. */
  | { readonly type: 'databaseUp'; readonly database: string }
  /** A worker of one database failed otherwise. */
  | { readonly type: 'fault'; readonly database: string; readonly worker: string; readonly error: unknown }

export type OnPlatformEvent = (event: PlatformEvent) => void
