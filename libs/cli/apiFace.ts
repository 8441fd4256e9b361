import { userInfo } from 'node:os'
import type { OidcOptions, WebhookSources } from '../http/index.js'
import { alertRules } from '../observability/index.js'
import type { Protection } from './fieldProtection.js'
import type { ApiFaceOptions } from './HttpFace.js'
import { loadOidcFile } from './loadOidcFile.js'
import { loadWebhooksFile } from './loadWebhooksFile.js'
import type { AlertSettings, ApiSettings } from './settings.js'

/** What an API is told by its settings: read before anything is opened, so that a mistake in a file costs nothing. */
export interface ApiFiles {
  readonly webhooks: WebhookSources | undefined
  readonly oidc: OidcOptions | undefined
}

export async function loadApiFiles({ webhooks, oidc }: ApiSettings): Promise<ApiFiles> {
  return {
    webhooks: webhooks === undefined ? undefined : await loadWebhooksFile(webhooks),
    oidc: oidc === undefined ? undefined : await loadOidcFile(oidc),
  }
}

export function apiFace(
  url: string,
  settings: ApiSettings & AlertSettings,
  { oidc }: ApiFiles,
  protection: Protection,
): ApiFaceOptions {
  return {
    databaseName: decodeURIComponent(new URL(url).pathname.slice(1)) || 'postgres',
    accessTokenOwner: whoStarted(),
    oidc,
    protection,
    limits: { requestsPerSecond: settings.requestsPerSecond, streamsMax: settings.streamsMax },
    alertRules: alertRules(settings),
  }
}

/** The person whom the access token stands for: who runs the process and can read the token's file. */
function whoStarted(): string {
  try {
    return userInfo().username
  } catch {
    // A container's uid need not have a name.
    return `uid-${process.getuid?.() ?? 'unknown'}`
  }
}
