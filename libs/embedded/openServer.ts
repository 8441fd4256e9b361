import { requiredText } from '../core/index.js'
import { type StartOptions } from './options.js'
import { type EmbeddedServer, startEmbedded } from './startEmbedded.js'

export interface OpenServerOptions extends StartOptions {
  /** A server the user already has; it wins over everything else. */
  readonly databaseUrl?: string | undefined
}

export type OpenedServer =
  | { readonly kind: 'external'; readonly url: string; readonly stop: () => Promise<void> }
  | ({ readonly kind: 'embedded' } & EmbeddedServer)

/**
 * The database to work with, in the order of choice: the address given; the PostgreSQL of the installed package; one
 * found on the system; an error that says what to do. `stop` ends only what this call has started.
 */
export async function openServer({ databaseUrl, ...embedded }: OpenServerOptions): Promise<OpenedServer> {
  if (databaseUrl !== undefined) {
    return { kind: 'external', url: requiredText('databaseUrl', databaseUrl, 8192), stop: async () => {} }
  }
  return { kind: 'embedded', ...(await startEmbedded(embedded)) }
}
