/** One database of the platform, as it is configured or discovered. */
export interface PlatformDatabase {
  /** How it is called, in any case: in routing, events and logs. */
  readonly name: string
  /** `postgres://login:password@host:port/database` */
  readonly url: string
  /** @default the platform's schema */
  readonly schema?: string
}

/**
 * Says which databases there are now. Asked again and again, so databases may come and go while the process runs. If it
 * throws, or says something that cannot be, the last good answer stands.
 */
export abstract class PlatformDiscovery {
  abstract databases(): Promise<readonly PlatformDatabase[]>
}

/** A list that never changes. */
export class StaticDiscovery extends PlatformDiscovery {
  readonly #databases: readonly PlatformDatabase[]

  constructor(databases: readonly PlatformDatabase[]) {
    super()
    this.#databases = Object.freeze([...databases])
  }

  databases(): Promise<readonly PlatformDatabase[]> {
    return Promise.resolve(this.#databases)
  }
}
