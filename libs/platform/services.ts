import { AppError } from '../core/index.js'

/** A class stands for the service that is an instance of it, so that what is resolved has its type. */
export type ServiceClass<Service> = abstract new (...parameters: never[]) => Service

export class ServiceError extends AppError {
  constructor(code: 'SERVICE_MISSING' | 'SERVICE_EXISTS', message: string, remedy: string) {
    super(code, message, { remedy })
  }
}

/** What an application has registered, by class. One of each. */
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
