import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SymphonyError, isObject } from '../../core/index.js'
import { FieldVault } from '../../protection/index.js'
import { loadRails, RAIL_TIMEOUT_DEFAULT_MS, type LoadedRail, type Rail } from '../../rails/index.js'
import type { ProtectionSettings } from '../settings/settings.js'
import { MasterKeyFile } from './MasterKeyFile.js'

/** Imports the default export of an ES module, and checks that it is a list of rails. */
export async function readRailsFile(file: string, options: { readonly timeoutMs: number }): Promise<readonly Rail[]> {
  const declared = await importDefault(resolve(file))
  requireRails(declared, options)
  return declared
}

function requireRails(declared: unknown, options: { readonly timeoutMs: number }): asserts declared is readonly Rail[] {
  loadRails(declared, options)
}

async function importDefault(path: string): Promise<unknown> {
  let loaded: unknown
  try {
    loaded = await import(pathToFileURL(path).href)
  } catch (error) {
    throw new SymphonyError('RAILS_UNREADABLE', `The rails in ${path} cannot be loaded.`, {
      cause: error,
      remedy: TYPESCRIPT.test(path)
        ? TYPESCRIPT_REMEDY
        : 'Give --rails the path of a module that Node.js can import by itself.',
    })
  }
  if (!isObject(loaded) || !('default' in loaded)) {
    throw new SymphonyError('RAILS_UNREADABLE', `${path} has no default export.`, {
      remedy: 'Export the rails as its default: export default [ … ].',
    })
  }
  // Compiled CommonJS puts the rails in `exports.default`, and Node.js imports `exports` as the default. The rails are
  // then one level deeper.
  const rails = loaded['default']
  return isObject(rails) && 'default' in rails ? rails['default'] : rails
}

const TYPESCRIPT = /\.[cm]?tsx?$/i
const TYPESCRIPT_REMEDY =
  'Compile it (npx tsc rails.ts --module nodenext --target es2022) and give --rails the .js file. Node.js 20 reads no TypeScript; Node.js 24 reads a .ts or .mts file without enums, namespaces and parameter properties, outside node_modules.'

export interface Protection {
  readonly rails: ReadonlyMap<string, LoadedRail>
  readonly vault: FieldVault
}

/**
 * Loads rails for a process that enqueues or shows payloads but calls no rail, and closes them afterwards. Without
 * rails, every field is public.
 */
export async function withProtection<T>(
  { rails, vaultKeys }: ProtectionSettings,
  body: (protection: Protection) => Promise<T>,
): Promise<T> {
  const vault = await openMasterKeys(vaultKeys)
  const timeoutMs = RAIL_TIMEOUT_DEFAULT_MS
  const loaded = rails === undefined ? new Map() : loadRails(await readRailsFile(rails, { timeoutMs }))
  try {
    return await body({ rails: loaded, vault: new FieldVault(loaded, vault) })
  } finally {
    // An open connection of a rail would keep the process alive. Ignores a rail that fails to close.
    await Promise.allSettled([...loaded.values()].map((rail) => rail.close()))
  }
}

/** Reads the master keys. Called first, so that a mistake in the file stops the process at once. */
export async function openMasterKeys(file: string | undefined): Promise<MasterKeyFile | undefined> {
  return file === undefined ? undefined : MasterKeyFile.open(file)
}
