import { Inject, Injectable, Module } from '@nestjs/common'
import type { DynamicModule, OnApplicationBootstrap, OnApplicationShutdown } from '@nestjs/common'
import { enqueue, openDatabase } from 'symphony-pg'
import type { Database, EnqueuedItem, OutboxInstruction } from 'symphony-pg'
import { OutboxRelayer } from 'symphony-pg/outbox'
import type { OnRelayerEvent } from 'symphony-pg/outbox'
import { loadRails } from 'symphony-pg/rails'
import type { Rail } from 'symphony-pg/rails'

export interface SymphonyOptions {
  readonly url: string
  readonly rails: readonly Rail[]
  readonly onEvent?: OnRelayerEvent
}

const OPTIONS = Symbol('the options of Symphony')
const DATABASE = Symbol('the database of Symphony')

/** What the rest of the application injects. */
@Injectable()
export class Payments {
  readonly #database: Database

  constructor(@Inject(DATABASE) database: Database) {
    this.#database = database
  }

  enqueue(instruction: OutboxInstruction): Promise<EnqueuedItem> {
    return enqueue(instruction, { tx: this.#database.as('symphony_ingest') })
  }
}

/** The relayer in the lifecycle of the application: `app.close()` waits for the calls in progress. */
@Injectable()
class Relay implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #database: Database
  readonly #relayer: OutboxRelayer

  constructor(@Inject(DATABASE) database: Database, @Inject(OPTIONS) { rails, onEvent }: SymphonyOptions) {
    this.#database = database
    this.#relayer = new OutboxRelayer(database, loadRails(rails), {}, onEvent)
  }

  onApplicationBootstrap(): Promise<void> {
    return this.#relayer.start()
  }

  async onApplicationShutdown(): Promise<void> {
    await this.#relayer.stop()
    await this.#database.close()
  }
}

@Module({})
export class SymphonyModule {
  static register(options: SymphonyOptions): DynamicModule {
    return {
      module: SymphonyModule,
      global: true,
      providers: [
        { provide: OPTIONS, useValue: options },
        { provide: DATABASE, useFactory: () => openDatabase({ url: options.url }) },
        Payments,
        Relay,
      ],
      exports: [Payments],
    }
  }
}
