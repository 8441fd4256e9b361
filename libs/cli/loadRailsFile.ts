import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { AppError } from '../core/index.js'
import { loadRails, type LoadedRail } from '../rails/index.js'

/** Loads the rails that an ES module exports as its default, and no others. */
export async function loadRailsFile(
  file: string,
  options: { readonly timeoutMs: number },
): Promise<ReadonlyMap<string, LoadedRail>> {
  return loadRails(await importDefault(resolve(file)), options)
}

async function importDefault(path: string): Promise<unknown> {
  let loaded: unknown
  try {
    loaded = await import(pathToFileURL(path).href)
  } catch (error) {
    throw new AppError('RAILS_UNREADABLE', `The rails in ${path} cannot be loaded.`, {
      cause: error,
      remedy: 'Give --rails the path of an ES module that Node.js can import by itself.',
    })
  }
  if (typeof loaded === 'object' && loaded !== null && 'default' in loaded) return loaded.default
  throw new AppError('RAILS_UNREADABLE', `${path} has no default export.`, {
    remedy: 'Export the rails as its default: export default [ … ].',
  })
}
