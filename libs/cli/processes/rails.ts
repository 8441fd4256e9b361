import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { SymphonyError, isObject } from '../../core/index.js'
import { FieldVault } from '../../protection/index.js'
import { loadRails, RAIL_TIMEOUT_DEFAULT_MS, type LoadedRail, type Rail } from '../../rails/index.js'
import type { ProtectionSettings } from '../settings/settings.js'
import { MasterKeyFile } from './MasterKeyFile.js'

/** Reads the rails that an ES module exports as its default, and checks each. */
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
  // In compiled CommonJS the rails are in `exports.default`, and Node.js imports `exports` itself as the default. So
  // they may be one level deeper.
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
 * Loads rails for a process that enqueues or shows payloads and calls no rail, and closes them afterwards. Without
 * rails no field has a class, so every field is public.
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
    // An open connection would keep the process alive. A rail that fails to close is ignored.
    await Promise.allSettled([...loaded.values()].map((rail) => rail.close()))
  }
}

/** Reads the master keys before anything is opened, so that a mistake in the file stops the process at once. */
export async function openMasterKeys(file: string | undefined): Promise<MasterKeyFile | undefined> {
  return file === undefined ? undefined : MasterKeyFile.open(file)
}
