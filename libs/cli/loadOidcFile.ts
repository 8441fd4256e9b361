import { readFile } from 'node:fs/promises'
import { AppError, parseStrictJson } from '../core/index.js'
import { readOidcOptions, type OidcOptions } from '../http/index.js'

/** Which identity provider is trusted, and what its claims mean. There is no secret in it. */
export async function loadOidcFile(path: string): Promise<OidcOptions> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    throw new AppError('FILE_UNREADABLE', `The file that --oidc names cannot be read: ${path}.`, { cause: error })
  }
  return readOidcOptions(parseStrictJson(bytes, { argument: 'oidc' }))
}
