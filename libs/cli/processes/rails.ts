import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { AppError, isObject } from '../../core/index.js'
import type { Database } from '../../db/index.js'
import { encryptsFields, FieldVault, masterKeysInUse, protectedRails } from '../../protection/index.js'
import { loadRails, RAIL_TIMEOUT_DEFAULT_MS, type LoadedRail } from '../../rails/index.js'
import type { ProtectionSettings } from '../settings/settings.js'
import { MasterKeyFile } from './MasterKeyFile.js'

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

/** Rails, and the vault that encrypts and masks the fields of their payloads. */
export interface Protection {
  readonly rails: ReadonlyMap<string, LoadedRail>
  readonly vault: FieldVault
  readonly masters: MasterKeyFile | undefined
}

/**
 * Loads rails for a process that enqueues or shows payloads and calls no rail, and closes them afterwards. Without rails
 * no field has a class, so every field is public.
 */
export async function withProtection<T>(
  { rails, vaultKeys }: ProtectionSettings,
  body: (protection: Protection) => Promise<T>,
): Promise<T> {
  const loaded = rails === undefined ? new Map() : await loadRailsFile(rails, { timeoutMs: RAIL_TIMEOUT_DEFAULT_MS })
  try {
    return await body(await protectionOf(loaded, vaultKeys))
  } finally {
    await closeRails(loaded)
  }
}

/** Closes the rails if `body` fails. Later `WorkerServices` closes them when it stops. */
export async function closeRailsOnError<T>(rails: ReadonlyMap<string, LoadedRail>, body: () => Promise<T>): Promise<T> {
  try {
    return await body()
  } catch (error) {
    await closeRails(rails)
    throw error
  }
}

/** Closes every rail, because an open connection would keep the process alive. A rail that fails to close is ignored. */
async function closeRails(rails: ReadonlyMap<string, LoadedRail>): Promise<void> {
  await Promise.allSettled([...rails.values()].map((rail) => rail.close()))
}

/** Reads the master keys for loaded rails. Callers do this before they open anything, so a mistake in the file costs nothing. */
export async function protectionOf(
  rails: ReadonlyMap<string, LoadedRail>,
  vaultKeys: string | undefined,
): Promise<Protection> {
  const masters = vaultKeys === undefined ? undefined : await MasterKeyFile.open(vaultKeys)
  return { rails, masters, vault: new FieldVault(rails, masters) }
}

/**
 * Returns the rails for a worker. Throws if a master key in use is missing: every payment that needs it would be held until
 * an operator resolves the hold.
 */
export async function openRails(
  { rails, vault, masters }: Protection,
  database: Database,
): Promise<ReadonlyMap<string, LoadedRail>> {
  if (!encryptsFields(rails)) return rails
  const executor = database.as('symphony_executor')
  const missing = (await masterKeysInUse(executor)).filter(
    ({ masterKeyId }) => masters?.ids.includes(masterKeyId) !== true,
  )
  if (masters === undefined || missing.length > 0) {
    const named = missing.map(({ masterKeyId }) => masterKeyId).join(', ')
    throw new AppError(
      'VAULT_KEYS_MISSING',
      `Rails encrypt fields, and ${masters === undefined ? '--vault-keys names no file' : `these master keys are not in its file: ${named}`}.`,
      { remedy: 'Give --vault-keys the file with every master key that is in use (symphony vault status).' },
    )
  }
  return protectedRails(rails, vault, executor)
}
