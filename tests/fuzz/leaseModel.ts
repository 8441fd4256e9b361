import { at, exactly, type Time } from './Timeline.js'

/*
 * Model of named leases, written from the specification. A resource has at most one holder. Its token grows with each
 * acquire and renewal, across owners, releases, expiries and purges.
 */

export interface Holding {
  readonly resource: string
  readonly owner: string
  /** Name: lease1, lease2, … in the order of grants. */
  readonly lease: string
}

export interface Resource {
  readonly name: string
  owner: string
  /** Current lease, or null after a release. */
  lease: string | null
  /** Fencing token, minus the token floor of the database at the start of this sequence of steps. */
  token: number
  expires: Time
}

export class LeaseModel {
  readonly #resources = new Map<string, Resource>()
  #granted = 0
  /** Highest token of a purged row. */
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
    // A renewal never shortens a lease.
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

  /** Purges leases that were idle for longer than `idleSeconds`, and keeps their highest token as the floor. */
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
