import { SymphonyError, hasCode } from '../core/index.js'

/** Scheme of the URL of an embedded server: `embedded:FOLDER`. */
const SCHEME = 'embedded:'

/**
 * Part of `@symphony-pg/embedded` that this package uses. Declared here, because the package may not be installed, and
 * then its types are missing.
 */
export interface EmbeddedPackage {
  readonly startEmbedded: (options: {
    readonly dataDir: string
    readonly port?: number | undefined
    readonly detached?: boolean | undefined
    readonly searchPath?: string | undefined
    readonly signal?: AbortSignal | undefined
  }) => Promise<RunningServer>
  readonly stopEmbedded: (dataDir: string, options?: { readonly force?: boolean | undefined }) => Promise<boolean>
  readonly embeddedUrl: (dataDir: string) => Promise<string>
}

export interface RunningServer {
  readonly url: string
  readonly dataDir: string
  readonly port: number
  readonly version: number
  readonly adopted: boolean
  readonly ownerPid: number | undefined
  readonly stop: () => Promise<void>
}

/** Returns the folder of an embedded URL, or undefined for any other URL. */
export function embeddedFolder(url: unknown): string | undefined {
  if (typeof url !== 'string' || !url.startsWith(SCHEME)) return undefined
  const folder = url.slice(SCHEME.length)
  return folder === '' ? '.symphony' : folder
}

/** Loads the package that starts an embedded PostgreSQL. Production does not install it. */
export async function loadEmbedded(): Promise<EmbeddedPackage> {
  try {
    return await import('@symphony-pg/embedded')
  } catch (error) {
    if (!hasCode(error, 'ERR_MODULE_NOT_FOUND')) throw error
    throw new SymphonyError(
      'EMBEDDED_MISSING',
      'No server is set (DATABASE_URL), and the package @symphony-pg/embedded, which starts one, is not installed.',
      {
        cause: error,
        remedy: 'Set DATABASE_URL to your server. For development: npm install --save-dev @symphony-pg/embedded.',
      },
    )
  }
}

/** Starts the server of a folder, or finds it running, and returns its URL. A started server ends with this process. */
export async function startEmbeddedIn(folder: string): Promise<string> {
  const { startEmbedded } = await loadEmbedded()
  const { url } = await startEmbedded({ dataDir: folder })
  return url
}

/** Returns the remedy of an error of `@symphony-pg/embedded`, which shares no class with this package. */
export function embeddedRemedy(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('remedy' in error)) return undefined
  return typeof error.remedy === 'string' ? error.remedy : undefined
}
