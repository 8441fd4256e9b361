import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { AppError, parseStrictJson } from '../core/index.js'
import { readWebhookSources, type WebhookSources } from '../http/index.js'

/** Senders by their names, with their secrets: a file of its own, because it is one that few may read. */
export async function loadWebhooksFile(path: string): Promise<WebhookSources> {
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    throw new AppError('FILE_UNREADABLE', `The file that --webhooks names cannot be read: ${path}.`, { cause: error })
  }
  const name = basename(path)
  return readWebhookSources(name, parseStrictJson(bytes, { argument: name }))
}
