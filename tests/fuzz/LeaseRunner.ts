import type { Queryable } from '../../libs/db/index.js'
import { acquireLease, releaseLease, purgeIdleLeases, renewLease, type LeaseRef } from '../../libs/lease/index.js'
import type { TestDatabase } from '../support/database.js'
import { compareAnswers, fieldDifferences, NOTHING_DONE, refuseDifferences } from './answers.js'
import { AssumedClaims } from './AssumedClaims.js'
import { LeaseModel, type Holding, type Resource } from './leaseModel.js'
import type { HoldingPick, LeaseStep } from './leaseSteps.js'
import { Names } from './Names.js'
import { PreparedConnection } from './PreparedConnection.js'
import { at, JUMP, Timeline, timeDifference } from './Timeline.js'

interface Connections {
  readonly executor: Queryable
  readonly superuser: Queryable
}

const OWNERS = 3
const IDLE_SECONDS = 3600

/** Runs sequences of steps on leases and on their model. Each sequence has its own resources. */
export class LeaseRunner {
  readonly #connections: Connections
  #sequences = 0

  private constructor(connections: Connections) {
    this.#connections = connections
  }

  /** @param db database that no other test uses, because leases are deleted after each sequence */
  static async open(db: TestDatabase): Promise<LeaseRunner> {
    return new LeaseRunner({
      executor: await PreparedConnection.open(await db.connect('symphony_executor'), db.schema),
      superuser: await PreparedConnection.open(await db.connect(), db.schema),
    })
  }

  readonly run = async (steps: readonly LeaseStep[]): Promise<void> => {
    try {
      await new Sequence(this.#connections, ++this.#sequences).run(steps)
    } finally {
      await this.#connections.superuser.query('DELETE FROM symphony_leases')
    }
  }
}

interface LeaseRow {
  readonly resource: string
  readonly owner: string
  readonly lease_id: string | null
  readonly token: number
  readonly expires: number
  readonly acquired: number
}

class Sequence {
  readonly #connections: Connections
  readonly #suffix: string
  readonly #model = new LeaseModel()
  readonly #names = new Names<'lease'>()
  readonly #timeline = new Timeline()
  readonly #holdings = new AssumedClaims<Holding>(OWNERS)
  /** Greatest token issued per resource. */
  readonly #greatest = new Map<string, number>()
  #floor = 0n

  constructor(connections: Connections, number: number) {
    this.#connections = connections
    this.#suffix = `-${number}`
  }

  async run(steps: readonly LeaseStep[]): Promise<void> {
    await this.#timeline.begin(this.#connections.superuser)
    // All resources share the token floor, so the model counts tokens from its current value.
    const { rows } = await this.#connections.superuser.query<{ floor: bigint }>(
      'SELECT fencing_token AS floor FROM symphony_lease_floor',
    )
    this.#floor = rows[0]!.floor
    for (const [index, step] of steps.entries()) {
      const differences = await this.#step(step)
      if (differences !== NOTHING_DONE)
        refuseDifferences(`step ${index + 1}, ${step.do}`, [...differences, ...(await this.#compare())])
    }
  }

  async #step(step: LeaseStep): Promise<string[]> {
    const { executor } = this.#connections
    const model = this.#model
    switch (step.do) {
      case 'acquire': {
        const resource = `r${step.resource}`
        const owner = `o${step.owner}`
        return compareAnswers(
          () => model.acquire(resource, owner, step.durationMs),
          async () => {
            const request = { resource: this.#full(resource), owner, durationMs: step.durationMs }
            const grant = await acquireLease(executor, request)
            if (grant === null) return 'held by another'
            const lease = this.#names.of('lease', grant.leaseId)
            this.#holdings.add(step.owner, { resource, owner, lease })
            return `${lease} token ${this.#tokenOf(resource, grant.fencingToken)}`
          },
        )
      }
      case 'renew':
        return this.#withHolding(step.holding, (holding) =>
          compareAnswers(
            () => model.renew(holding, step.durationMs),
            async () => {
              const renewal = await renewLease(executor, this.#claimOf(holding), step.durationMs)
              return renewal === null ? 'lost' : `token ${this.#tokenOf(holding.resource, renewal.fencingToken)}`
            },
          ),
        )
      case 'release':
        return this.#withHolding(step.holding, (holding) =>
          compareAnswers(
            () => String(model.release(holding)),
            async () => String(await releaseLease(executor, this.#claimOf(holding))),
          ),
        )
      case 'purgeIdle':
        return compareAnswers(
          () => String(model.purgeIdle(IDLE_SECONDS)),
          async () => String(await purgeIdleLeases(executor, IDLE_SECONDS, 1000)),
        )
      case 'expire': {
        const resource = model.resources[step.resource % Math.max(1, model.resources.length)]
        if (resource === undefined) return NOTHING_DONE
        resource.expires = this.#timeline.past()
        return this.#write([resource])
      }
      case 'jump':
        for (const resource of model.resources) resource.expires = at(resource.expires) + (step.forward ? -JUMP : JUMP)
        return this.#write(model.resources)
      case 'crash':
        this.#holdings.clear(step.owner)
        return NOTHING_DONE
    }
  }

  /** Checks that a fencing token is greater than all earlier ones of its resource. */
  #tokenOf(resource: string, fencingToken: bigint): string {
    const token = Number(fencingToken - this.#floor)
    const before = this.#greatest.get(resource) ?? 0
    this.#greatest.set(resource, Math.max(token, before))
    return token > before ? String(token) : `${token}, which is not greater than ${before}`
  }

  #withHolding(
    { owner, pick, foreign }: HoldingPick,
    body: (holding: Holding) => Promise<string[]>,
  ): Promise<string[]> {
    const isLive = (_: number, holding: Holding): boolean => this.#model.isLive(holding)
    const acting = this.#holdings.pick({ worker: owner, picks: [pick], foreign }, isLive)
    return acting === undefined
      ? Promise.resolve(NOTHING_DONE)
      : body({ ...acting.chosen[0]!, owner: `o${acting.worker}` })
  }

  #claimOf({ resource, owner, lease }: Holding): LeaseRef {
    return { resource: this.#full(resource), owner, leaseId: this.#names.id(lease) }
  }

  #full(resource: string): string {
    return `${resource}${this.#suffix}`
  }

  async #compare(): Promise<string[]> {
    const { rows } = await this.#connections.superuser.query<{ clock: bigint; leases: LeaseRow[] | null }>(READ, [
      this.#timeline.start,
      this.#floor,
    ])
    const clock = Number(rows[0]!.clock)
    const stored = new Map((rows[0]!.leases ?? []).map((row) => [row.resource, row]))
    const expected = this.#model.resources
    const differences = expected.flatMap((resource) =>
      this.#compareRow(resource, stored.get(this.#full(resource.name)), clock),
    )
    this.#model.clock = clock
    return [...differences, ...fieldDifferences('the table', { rows: [expected.length, stored.size] })]
  }

  #compareRow(resource: Resource, row: LeaseRow | undefined, clock: number): string[] {
    const { name, owner, lease, token, expires } = resource
    if (row === undefined) return [`${name}: not in the table`]
    const differences = [
      ...fieldDifferences(name, {
        owner: [owner, row.owner],
        lease: [lease, row.lease_id && this.#names.known(row.lease_id)],
        token: [token, row.token],
      }),
      ...timeDifference(`${name}: until`, expires, row.expires, {
        call: [this.#model.clock, clock],
        claim: row.acquired,
      }),
    ]
    resource.expires = row.expires
    return differences
  }

  async #write(resources: readonly Resource[]): Promise<string[]> {
    await this.#connections.superuser.query(WRITE, [
      resources.map(({ name }) => this.#full(name)),
      resources.map(({ expires }) => this.#timeline.start + at(expires)),
    ])
    return []
  }
}

const READ = `
  SELECT epoch_micros(clock_timestamp()) - $1::bigint AS clock, (SELECT json_agg(q) FROM (
    SELECT l.resource, l.owner, l.lease_id, l.fencing_token - $2::bigint AS token,
      epoch_micros(l.expires_at) - $1::bigint AS expires, epoch_micros(l.acquired_at) - $1::bigint AS acquired
    FROM symphony_leases l) q) AS leases`

const WRITE = `
  UPDATE symphony_leases l SET expires_at = 'epoch'::timestamptz + moved.expires * interval '1 microsecond'
  FROM unnest($1::text[], $2::bigint[]) AS moved(resource, expires) WHERE l.resource = moved.resource`
