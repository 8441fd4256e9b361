import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { AppError, isObject } from '../core/index.js'
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
      remedy: TYPESCRIPT.test(path)
        ? TYPESCRIPT_REMEDY
        : 'Give --rails the path of a module that Node.js can import by itself.',
    })
  }
  if (!isObject(loaded) || !('default' in loaded)) {
    throw new AppError('RAILS_UNREADABLE', `${path} has no default export.`, {
      remedy: 'Export the rails as its default: export default [ … ].',
    })
  }
  // A compiler that emits CommonJS writes `exports.default`, and Node.js imports `exports` as the default.
  const rails = loaded['default']
  return isObject(rails) && 'default' in rails ? rails['default'] : rails
}

const TYPESCRIPT = /\.[cm]?tsx?$/i
const TYPESCRIPT_REMEDY =
  'Compile it (npx tsc rails.ts --module nodenext --target es2022) and give --rails the .js file. Node.js 20 reads no TypeScript; Node.js 24 reads a .ts or .mts file without enums, namespaces and parameter properties, outside node_modules.'
