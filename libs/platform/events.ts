/** Events of a platform. Each type reports one kind of fact. No event holds a URL. */
export type PlatformEvent =
  /** Discovery returned a new database. */
  | { readonly type: 'platform.databaseAdded'; readonly database: string }
  /** Discovery no longer returns a database. */
  | { readonly type: 'platform.databaseRemoved'; readonly database: string }
  /** Discovery failed or returned an invalid set. The last valid set stays. */
  | { readonly type: 'platform.discoveryFailed'; readonly error: unknown }
  /**
   * Another fleet of this process serves the same database. This fleet starts its workers after the other has stopped.
   */
  | { readonly type: 'platform.alreadyServed'; readonly database: string }
  /** A round failed, so the fleet counts the database as down. Its workers wait until a probe succeeds. */
  | { readonly type: 'platform.databaseDown'; readonly database: string }
  /** The database answers again. */
  | { readonly type: 'platform.databaseUp'; readonly database: string }
  /** A round of a worker failed with this error, whatever its cause. */
  | { readonly type: 'platform.fault'; readonly database: string; readonly worker: string; readonly error: unknown }

export type OnPlatformEvent = (event: PlatformEvent) => void
