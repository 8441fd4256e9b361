import { Inject, Injectable, Module } from '@nestjs/common'
import type { DynamicModule, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common'
import { Symphony } from 'symphony-pg'
import type { Rail } from 'symphony-pg'

/** Runs a worker while the application runs. `app.close()` waits for calls in progress. */
@Injectable()
class SymphonyLifecycle implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #symphony: Symphony

  constructor(@Inject(Symphony) symphony: Symphony) {
    this.#symphony = symphony
  }

  onApplicationBootstrap(): Promise<void> {
    return this.#symphony.worker().start()
  }

  onApplicationShutdown(): Promise<void> {
    return this.#symphony.close()
  }
}

/** Makes `Symphony` injectable. */
@Module({})
export class SymphonyModule {
  static register(options: { readonly url: string; readonly rails: readonly Rail[] }): DynamicModule {
    return {
      module: SymphonyModule,
      global: true,
      providers: [{ provide: Symphony, useFactory: () => new Symphony(options) }, SymphonyLifecycle],
      exports: [Symphony],
    }
  }
}
