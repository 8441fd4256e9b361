import { at, exactly, type Time } from './Timeline.js'

/**
 * Leases as the specification tells them: at most one holder of a resource, and a token that grows with each acquire and
 * renewal, across owners, releases, expiries and the removal of rows that nobody uses.
 */
export interface Holding {
  readonly resource: string
  readonly owner: string
  /** lease1, lease2, … in the order in which they were granted. */
  readonly lease: string
}

export interface Resource {
  readonly name: string
  owner: string
  /** Null once released. */
  lease: string | null
  /** Counted from the floor at the beginning of the sequence. */
  token: number
  expires: Time
}

export class LeaseModel {
  readonly #resources = new Map<string, Resource>()
  #granted = 0
  /** The highest token of any row that was removed. */
  floor = 0
  clock = 0

  get resources(): readonly Resource[] {
    return [...this.#resources.values()]
  }

  acquire(resource: string, owner: string, durationMs: number): string {
    const known = this.#resources.get(resource)
    if (known !== undefined && this.#isHeld(known) && known.owner !== owner) return 'held by another'
    const lease = `lease${++this.#granted}`
    const token = (known?.token ?? this.floor) + 1
    this.#resources.set(resource, {
      name: resource,
      owner,
      lease,
      token,
      expires: exactly('claim', durationMs * 1_000),
    })
    return `${lease} token ${token}`
  }

  renew(holding: Holding, durationMs: number): string {
    const resource = this.#live(holding)
    if (resource === undefined) return 'lost'
    resource.token++
    // Never shortened.
    resource.expires = { ...exactly('call', durationMs * 1_000), notBefore: at(resource.expires) }
    return `token ${resource.token}`
  }

  release(holding: Holding): boolean {
    const resource = this.#live(holding)
    if (resource === undefined) return false
    resource.lease = null
    resource.expires = { since: 'call', min: 0, max: 0 }
    return true
  }

  /** Rows that were free for longer than that go; their tokens are remembered together, as the floor. */
  purgeIdle(idleSeconds: number): number {
    const idle = this.resources.filter(({ expires }) => at(expires) <= this.clock - idleSeconds * 1_000_000)
    for (const { name, token } of idle) {
      this.floor = Math.max(this.floor, token)
      this.#resources.delete(name)
    }
    return idle.length
  }

  isLive({ resource, owner, lease }: Holding): boolean {
    const known = this.#resources.get(resource)
    return known !== undefined && this.#isHeld(known) && known.lease === lease && known.owner === owner
  }

  #live(holding: Holding): Resource | undefined {
    return this.isLive(holding) ? this.#resources.get(holding.resource) : undefined
  }

  #isHeld({ lease, expires }: Resource): boolean {
    return lease !== null && at(expires) > this.clock
  }
}
