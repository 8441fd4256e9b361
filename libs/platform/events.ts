/** Events of a platform, one per fact. No event holds a URL. */
export type PlatformEvent =
  /** Discovery returned a new database. */
  | { readonly type: 'platform.databaseAdded'; readonly database: string }
  /** Discovery no longer returns a database. */
  | { readonly type: 'platform.databaseRemoved'; readonly database: string }
  /** Discovery failed or returned an invalid set. The last valid set stays. */
  | { readonly type: 'platform.discoveryFailed'; readonly error: unknown }
  /** Another fleet of this process serves the same database. This fleet starts its workers after the other has stopped. */
  | { readonly type: 'platform.alreadyServed'; readonly database: string }
  /** A round failed because the database does not answer. The fleet probes it again later. */
  | { readonly type: 'platform.databaseDown'; readonly database: string }
  /** The database answers again. */
  | { readonly type: 'platform.databaseUp'; readonly database: string }
  /** A worker of one database failed for another reason. */
  | { readonly type: 'platform.fault'; readonly database: string; readonly worker: string; readonly error: unknown }

export type OnPlatformEvent = (event: PlatformEvent) => void
