import { readFile } from 'node:fs/promises'
import { userInfo } from 'node:os'
import { basename } from 'node:path'
import type { Logger } from 'pino'
import { SymphonyError, hasCode, parseStrictJson, requiredText } from '../../core/index.js'
import {
  createHttpServer,
  readOidcOptions,
  readWebhookSources,
  type HttpServer,
  type HttpServerOptions,
  type OidcOptions,
  type WebhookSources,
} from '../../http/index.js'
import { alertRules, Metrics } from '../../observability/index.js'
import type { AlertSettings, ApiSettings, ProcessSettings } from '../settings/settings.js'
import { packageVersion } from '../terminal/installation.js'

interface ProcessHttpServerOptions extends Pick<HttpServerOptions, 'symphony'> {
  readonly log: Logger
  readonly accessToken: string | undefined
  /** Options of the API and the dashboard. If undefined, neither is served. */
  readonly api?: Pick<HttpServerOptions, 'accessTokenOwner' | 'oidc' | 'searchKey' | 'limits' | 'alertRules'>
  readonly webhooks?: WebhookSources | undefined
}

export class ProcessHttpServer {
  readonly metrics = new Metrics({ version: packageVersion() })
  readonly #server: HttpServer

  constructor({ symphony, log, accessToken, api, webhooks }: ProcessHttpServerOptions) {
    this.#server = createHttpServer({
      symphony,
      log,
      metrics: this.metrics,
      version: packageVersion(),
      api: api !== undefined,
      ...api,
      ...(accessToken === undefined ? {} : { accessToken }),
      ...(webhooks === undefined ? {} : { webhooks }),
    })
  }

  /**
   * Listens on the port of the settings, and fails if it is in use. Without that setting, listens on the usual port, or
   * on a free one if the usual port is in use.
   */
  async listen({ host, port }: Pick<ProcessSettings, 'host' | 'port'>, usualPort: number): Promise<string> {
    try {
      return await this.#server.listen({ host, port: port ?? usualPort })
    } catch (error) {
      if (!hasCode(error, 'EADDRINUSE')) throw error
      if (port === undefined) return this.#server.listen({ host, port: 0 })
      throw new SymphonyError('PORT_TAKEN', `Port ${port} of ${host} is in use.`, {
        cause: error,
        remedy: 'Give another --port, or none to have a free one chosen.',
      })
    }
  }

  close(): Promise<void> {
    return this.#server.close()
  }
}

/**
 * Contents of the files that the settings of the API name. The process reads them first, so that a mistake stops it at
 * once.
 */
export interface ApiFiles {
  readonly webhooks: WebhookSources | undefined
  readonly oidc: OidcOptions | undefined
  readonly searchKey: string | undefined
}

export async function loadApiFiles(settings: ApiSettings): Promise<ApiFiles> {
  const { webhooks, oidc } = settings
  return {
    webhooks: webhooks === undefined ? undefined : await loadWebhooksFile(webhooks),
    oidc: oidc === undefined ? undefined : await loadOidcFile(oidc, settings),
    searchKey: await secretOf(settings.searchKey, '--search-key-file', settings.searchKeyFile),
  }
}

export function createApiOptions(settings: ApiSettings & AlertSettings, { oidc, searchKey }: ApiFiles) {
  return {
    accessTokenOwner: processUser(),
    limits: {
      requestsPerSecond: settings.requestsPerSecond,
      streamsMax: settings.streamsMax,
      statementMibMax: settings.statementMibMax,
    },
    alertRules: alertRules(settings),
    ...(oidc === undefined ? {} : { oidc }),
    ...(searchKey === undefined ? {} : { searchKey }),
  }
}

/** Returns the owner of the access token: the user of this process, who can read the token's file. */
function processUser(): string {
  try {
    return userInfo().username
  } catch {
    // A user id may have no name, as in many containers.
    return `uid-${process.getuid?.() ?? 'unknown'}`
  }
}

/** Reads the identity provider and the meaning of its claims. The client secret is a separate setting. */
async function loadOidcFile(path: string, settings: ApiSettings): Promise<OidcOptions> {
  const secret = await secretOf(settings.oidcClientSecret, '--oidc-client-secret-file', settings.oidcClientSecretFile)
  const json = parseStrictJson(await readFlagFile('--oidc', path), { argument: 'oidc' })
  return readOidcOptions(json, secret === undefined ? {} : { clientSecret: secret })
}

/** Returns the secret in the file, or else in the environment. */
async function secretOf(
  given: string | undefined,
  flag: string,
  file: string | undefined,
): Promise<string | undefined> {
  return file === undefined ? given : requiredText(flag, String(await readFlagFile(flag, file)).trim(), 1_024)
}

/** Reads the webhook senders and their secrets. Separate from other settings, because few people may read the file. */
export async function loadWebhooksFile(path: string): Promise<WebhookSources> {
  const name = basename(path)
  return readWebhookSources(name, parseStrictJson(await readFlagFile('--webhooks', path), { argument: name }))
}

async function readFlagFile(flag: string, path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new SymphonyError('FILE_UNREADABLE', `The file that ${flag} names cannot be read: ${path}.`, { cause: error })
  }
}
