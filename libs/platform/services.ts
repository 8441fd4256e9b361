import { SymphonyError } from '../core/index.js'
import type { Inbox } from '../inbox/index.js'
import type { Leases } from '../lease/index.js'
import type { OutboxStore } from '../outbox/index.js'
import type { SchedulerStore } from '../scheduler/index.js'
import type { DatabaseSet, Member } from './DatabaseSet.js'

/** Class that identifies a service and gives the resolved service its type. */
export type ServiceClass<Service> = abstract new (...parameters: never[]) => Service

export class ServiceError extends SymphonyError {
  constructor(code: 'SERVICE_MISSING' | 'SERVICE_EXISTS', message: string, remedy: string) {
    super(code, message, { remedy })
  }
}

/** Services of an application, one per class. */
export class PlatformServices {
  readonly #services = new Map<ServiceClass<unknown>, unknown>()

  add<Service>(type: ServiceClass<Service>, service: Service): void {
    if (this.has(type)) {
      throw new ServiceError('SERVICE_EXISTS', `${type.name} is registered already`, 'Register each service once.')
    }
    this.#services.set(type, service)
  }

  has(type: ServiceClass<unknown>): boolean {
    return this.#services.has(type)
  }

  resolve<Service>(type: ServiceClass<Service>): Service {
    const service = this.#services.get(type)
    if (service instanceof type) return service
    throw new ServiceError('SERVICE_MISSING', `${type.name} is not registered`, 'Call addPostgresPlatform first.')
  }
}

/** Creates one store per database on first use, and keeps it while the database is a member. */
abstract class StoreProvider<Store> {
  readonly #databases: DatabaseSet
  readonly #create: (member: Member) => Store
  readonly #stores = new WeakMap<Member, { readonly store: Store }>()

  constructor(databases: DatabaseSet, create: (member: Member) => Store) {
    this.#databases = databases
    this.#create = create
  }

  /** Returns the store of the database with this case-insensitive name. */
  of(name: string): Store {
    return this.#storeOf(this.#databases.get(name))
  }

  /**
   * Returns the store of the database that the key belongs to. A key keeps its store while the databases stay the same.
   */
  forKey(key: string): Store {
    return this.#storeOf(this.#databases.forKey(key))
  }

  all(): ReadonlyMap<string, Store> {
    return new Map(this.#databases.members.map((member) => [member.name, this.#storeOf(member)]))
  }

  #storeOf(member: Member): Store {
    const known = this.#stores.get(member)
    if (known !== undefined) return known.store
    const store = this.#create(member)
    this.#stores.set(member, { store })
    return store
  }
}

export class OutboxStoreProvider extends StoreProvider<OutboxStore> {}
export class InboxWorkStoreProvider extends StoreProvider<Inbox> {}
export class SchedulerStoreProvider extends StoreProvider<SchedulerStore> {}
export class LeaseProvider extends StoreProvider<Leases> {}
