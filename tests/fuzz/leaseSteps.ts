import * as fc from 'fast-check'

/** A step on leases. A number selects a lease among those that the owner believes to hold. */
export type LeaseStep =
  | { readonly do: 'acquire'; readonly owner: number; readonly resource: number; readonly durationMs: number }
  | { readonly do: 'renew'; readonly holding: HoldingPick; readonly durationMs: number }
  | { readonly do: 'release'; readonly holding: HoldingPick }
  | { readonly do: 'expire'; readonly resource: number }
  | { readonly do: 'crash'; readonly owner: number }
  | { readonly do: 'purgeIdle' }
  | { readonly do: 'jump'; readonly forward: boolean }

export interface HoldingPick {
  readonly owner: number
  readonly pick: number
  /** Whether another owner presents the lease as its own. */
  readonly foreign: boolean
}

const owner = fc.nat(2)
const durationMs = fc.constantFrom(1_200_000, 3_600_000)
const holding: fc.Arbitrary<HoldingPick> = fc.record({
  owner,
  pick: fc.nat(6),
  foreign: fc.nat(7).map((value) => value === 0),
})

export const leaseStep: fc.Arbitrary<LeaseStep> = fc.oneof(
  { weight: 8, arbitrary: fc.record({ do: fc.constant('acquire' as const), owner, resource: fc.nat(2), durationMs }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('renew' as const), holding, durationMs }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const), holding }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('expire' as const), resource: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('crash' as const), owner }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('purgeIdle' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('jump' as const), forward: fc.boolean() }) },
)
