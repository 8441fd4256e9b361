import {
  InvalidArgumentError,
  rejectUnknownKeys,
  requiredObject,
  requireKnownOptions,
  SymphonyError,
  type ArgumentName,
} from '../core/index.js'
import { openDatabase, type Database, type RoleHandle, type Tx } from '../db/index.js'
import { Inbox } from '../inbox/index.js'
import { Leases } from '../lease/index.js'
import {
  enqueue,
  enqueueMany,
  OutboxStore,
  topicRails,
  type EnqueuedItem,
  type OutboxInstruction,
  type TopicHandler,
} from '../outbox/index.js'
import { FieldVault, protectedRails } from '../protection/index.js'
import {
  loadContract,
  loadRail,
  type LoadedContract,
  type LoadedRail,
  type RailContract,
  type TopicContracts,
} from '../rails/index.js'
import { SchedulerStore } from '../scheduler/index.js'
import type { Instruction } from './contracts.js'
import { Events, SYMPHONY_EVENT_TYPES, type SymphonyEvent } from './Events.js'
import { Operator } from './Operator.js'
import {
  checkWorkerOptions,
  requiredRails,
  requiredTx,
  SYMPHONY_OPTIONS,
  type EnqueueOptions,
  type SymphonyOptions,
  type WorkerOptions,
} from './options.js'
import { Payments } from './Payments.js'
import { closeRails, SymphonyWorker } from './SymphonyWorker.js'

/** Internal parts of a Symphony, for the HTTP server and the command line. */
export interface SymphonyParts {
  readonly database: Database
  /** Name of the database, never its address. */
  readonly databaseName: string
  readonly contracts: ReadonlyMap<string, LoadedContract>
  readonly vault: FieldVault
}

/** Symphony with any rails and topics. */
export type AnySymphony = Pick<Symphony, 'events' | 'close'>

/** Returns the parts of a Symphony. Throws if it has neither a url nor a database of a fleet. */
export let partsOf: (symphony: AnySymphony) => SymphonyParts

/**
 * Creates a Symphony for a database of a fleet. Its `close` stops its workers; the fleet closes the database and the
 * rails.
 */
export let symphonyOver: <const Rails extends readonly RailContract[], const Topics extends TopicContracts>(
  database: Database,
  options: SymphonyOptions<Rails, Topics>,
) => Symphony<Rails, Topics>

/**
 * Symphony of one database, with the rails and topics of this process. The constructor opens no connection. Each
 * connection is opened on first use, in the role of the call. Close the Symphony when the process ends.
 */
export class Symphony<
  const Rails extends readonly RailContract[] = readonly RailContract[],
  const Topics extends TopicContracts = TopicContracts,
> implements AsyncDisposable {
  static {
    partsOf = (symphony) => {
      if (!(#contracts in symphony)) throw new InvalidArgumentError('symphony', 'expected a Symphony of this package')
      const database = symphony.#database()
      return {
        database,
        databaseName: database.name,
        contracts: symphony.#contracts,
        vault: symphony.#vault,
      }
    }
    symphonyOver = (database, options) => {
      const symphony = new Symphony({ ...options, schema: database.schema })
      symphony.#opened = database
      symphony.#isShared = true
      return symphony
    }
  }

  readonly events = new Events<SymphonyEvent>(SYMPHONY_EVENT_TYPES)
  readonly #options: SymphonyOptions<Rails, Topics>
  readonly #contracts: ReadonlyMap<string, LoadedContract>
  readonly #vault: FieldVault
  readonly #workers = new Set<SymphonyWorker>()
  /** Rails with an adapter. Workers share them, so the Symphony closes them. */
  readonly #adapters: readonly LoadedRail[]
  #opened: Database | undefined
  /** True if database and rails belong to a fleet. */
  #isShared = false
  #messages: OutboxStore<Topics> | undefined
  #inbox: Inbox | undefined
  #scheduler: SchedulerStore<Topics> | undefined
  #leases: Leases | undefined
  #closed: Promise<void> | undefined

  constructor(options: SymphonyOptions<Rails, Topics> = {}) {
    requireKnownOptions(options, SYMPHONY_OPTIONS)
    this.#options = options
    const rails = requiredRails(options.rails)
    this.#contracts = loadContracts(rails)
    this.#adapters = adaptersOf(rails)
    this.#vault = new FieldVault(this.#contracts, options.vault)
    // Opens no connection. Checks the database options even if there is no url yet.
    const database = this.#open(options.url ?? NO_URL)
    if (options.url !== undefined) this.#opened = database
  }

  /**
   * Enqueues a payment in your transaction, with which it is committed or rolled back. Call it last, because it locks
   * the participant's sequence until the commit. A repeated instruction and key return the first item with `created:
   * false`.
   */
  async enqueue(instruction: Instruction<Rails>, options: EnqueueOptions): Promise<EnqueuedItem> {
    const tx = requiredTx(options, EXPECTED_TX)
    // Must not await before the statement is sent. Otherwise a caller that forgot to await enqueue() would send COMMIT
    // first.
    return enqueue(withKey(instruction, fieldName, 'instruction'), { tx, ...this.#checks })
  }

  /**
   * Enqueues many payments, in statements of up to 1000: all of them, or none if one is refused. The index in an error
   * counts from the start of its statement.
   */
  async enqueueMany(instructions: readonly Instruction<Rails>[], options: EnqueueOptions): Promise<EnqueuedItem[]> {
    const tx = requiredTx(options, EXPECTED_TX)
    if (!Array.isArray(instructions)) throw new InvalidArgumentError('instructions', 'expected an array')
    let index = -1
    const place = () => `instructions[${index}]`
    const nameOf = (key: string) => `${place()}.${key}`
    const completed = instructions.map((instruction: Instruction<Rails>) => {
      index += 1
      return withKey(instruction, nameOf, place)
    })
    return enqueueMany(completed, { tx, ...this.#checks })
  }

  /** Runs the body in a transaction of its own, for scripts and tests. The transaction can only enqueue and cancel. */
  transaction<T>(body: (tx: Tx) => Promise<T>): Promise<T> {
    return this.#as('symphony_ingest').transaction(body)
  }

  /** Creates a worker without starting it. `close` stops it. */
  worker(options: WorkerOptions<Topics> = {}): SymphonyWorker {
    checkWorkerOptions(options)
    const { rails, railTimeoutMs, topics, inbox, scheduler = false, maintenance = true, ...relayer } = options
    const loading = railTimeoutMs === undefined ? {} : { timeoutMs: railTimeoutMs }
    const database = this.#database()
    const own = requiredRails(rails)
    const adapters = rails === undefined ? (this.#options.rails ?? []).filter((rail) => 'dispatch' in rail) : own
    const loaded = new Map<string, LoadedRail>()
    const schemas: TopicContracts = this.#options.topics ?? {}
    const handlers: object = topics ?? {}
    const ofTopics = topicRails(Object.fromEntries(Object.entries<TopicHandler>({ ...handlers })))
    for (const declared of [...adapters, ...ofTopics]) {
      // Adds the schema of a topic to its rail, which then refuses an invalid message before it calls the handler.
      const schema = 'payload' in declared ? undefined : schemas[declared.type]
      // Copies only rails of topics. A copy of an adapter that is a class instance would lose its methods.
      const rail = loadRail(schema === undefined ? declared : { ...declared, payload: schema }, loading)
      if (loaded.has(rail.type)) throw new InvalidArgumentError('rails', `the rail "${rail.type}" is declared twice`)
      loaded.set(rail.type, rail)
    }
    const executor = database.as('symphony_executor')
    const worker: SymphonyWorker = new SymphonyWorker(
      {
        database,
        login: database.login,
        rails: protectedRails(loaded, new FieldVault(loaded, this.#options.vault), executor),
        ownRails: rails === undefined || this.#isShared ? [] : [...loaded.values()],
        vault: this.#options.vault,
        relayer,
        inbox,
        scheduler: scheduler === true ? {} : scheduler === false ? undefined : scheduler,
        maintenance: maintenance === true ? {} : maintenance === false ? undefined : maintenance,
        clock: this.#options.clock,
        emit: (event) => this.events.emit(event),
      },
      () => this.#workers.delete(worker),
    )
    this.#workers.add(worker)
    return worker
  }

  /** Messages that are not payments: enqueue, claim, ack, abandon, fail. */
  get messages(): OutboxStore<Topics> {
    return (this.#messages ??= new OutboxStore(this.#database(), this.#topics))
  }

  get inbox(): Inbox {
    return (this.#inbox ??= new Inbox(this.#database()))
  }

  get scheduler(): SchedulerStore<Topics> {
    return (this.#scheduler ??= new SchedulerStore(this.#database(), this.#topics))
  }

  get leases(): Leases {
    return (this.#leases ??= new Leases(this.#as('symphony_executor'), {
      onEvent: (event) => this.events.emit(event),
      ...(this.#options.clock === undefined ? {} : { clock: this.#options.clock }),
    }))
  }

  get payments(): Payments {
    return new Payments(() => this.#as('symphony_readonly'), this.#options.schema)
  }

  get operator(): Operator {
    return new Operator(this.#database(), (railType) => ({
      rail: this.#adapters.find(({ type }) => type === railType) ?? this.#contracts.get(railType),
      vault: this.#vault,
    }))
  }

  /**
   * Stops the workers within their time limits, releases held leases, then closes the rails and the connections. Safe
   * to call twice.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()))
    // After the stop, because handlers may hold leases.
    await this.#leases?.close()
    if (this.#isShared) return
    await closeRails(this.#adapters)
    await this.#opened?.close()
  }

  get #checks() {
    const { schema } = this.#options
    return {
      ...(schema === undefined ? {} : { schema }),
      ...(this.#contracts.size === 0 ? {} : { rails: this.#contracts, protection: this.#vault }),
    }
  }

  get #topics(): { readonly topics?: Topics } {
    const { topics } = this.#options
    return topics === undefined ? {} : { topics }
  }

  #as(role: string): RoleHandle {
    return this.#database().as(role)
  }

  #database(): Database {
    if (this.#opened === undefined) throw new NoDatabaseError()
    return this.#opened
  }

  #open(url: string): Database {
    const { rails: _rails, topics: _topics, vault: _vault, clock: _clock, ...options } = this.#options
    return openDatabase({ ...options, url })
  }
}

const INSTRUCTION_FIELDS: readonly string[] = Object.keys({
  instructionId: true,
  participantId: true,
  railType: true,
  payload: true,
  idempotencyKey: true,
  notBefore: true,
  ordered: true,
  outcomeTopic: true,
  replaces: true,
  traceContext: true,
} satisfies Record<keyof OutboxInstruction, true>)

const EXPECTED_TX = '{ tx } with the transaction to enqueue in'

function fieldName(key: string): string {
  return key
}

/** Placeholder, with which a Symphony without a url can still check its database options. */
const NO_URL = 'postgres://nobody@localhost/none'

/** Loads the rails that have an adapter. */
export function adaptersOf(rails: readonly RailContract[]): readonly LoadedRail[] {
  return rails.filter((rail) => 'dispatch' in rail).map((rail) => loadRail(rail))
}

function loadContracts(rails: readonly RailContract[]): ReadonlyMap<string, LoadedContract> {
  const contracts = new Map<string, LoadedContract>()
  for (const [index, declared] of rails.entries()) {
    const contract = loadContract(declared, {}, `rails[${index}]`)
    if (contracts.has(contract.type))
      throw new InvalidArgumentError(`rails[${index}].type`, `the rail "${contract.type}" is declared twice`)
    contracts.set(contract.type, contract)
  }
  return contracts
}

/**
 * Adds the default key. Refuses an unknown field first, because a misspelt `notBefore` would otherwise be ignored and
 * pay at once.
 */
function withKey<Rails extends readonly RailContract[]>(
  instruction: Instruction<Rails>,
  nameOf: (key: string) => string,
  place: ArgumentName,
): OutboxInstruction {
  rejectUnknownKeys(requiredObject(place, instruction), INSTRUCTION_FIELDS, nameOf)
  const { instructionId, idempotencyKey = instructionId } = instruction
  return { ...instruction, idempotencyKey }
}

class NoDatabaseError extends SymphonyError {
  constructor() {
    super('DATABASE_URL_MISSING', 'The url of this Symphony is undefined: it can only enqueue in your transactions.', {
      remedy: 'Set url, for example to process.env.DATABASE_URL (is it set?), or for development to embedded:FOLDER.',
    })
  }
}
