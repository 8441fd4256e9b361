import { AppError } from '../core/index.js'
import type { Database } from '../db/index.js'
import { encryptsFields, FieldVault, masterKeysInUse, protectedRails } from '../protection/index.js'
import { RAIL_TIMEOUT_DEFAULT_MS, type LoadedRail } from '../rails/index.js'
import { loadRailsFile } from './loadRailsFile.js'
import { MasterKeyFile } from './MasterKeyFile.js'
import type { ProtectionSettings } from './settings.js'

/** Rails, and the vault that does what they declare about the fields of their payloads. */
export interface Protection {
  readonly rails: ReadonlyMap<string, LoadedRail>
  readonly vault: FieldVault
  readonly masters: MasterKeyFile | undefined
}

/**
 * For a process that enqueues or shows payloads, and calls no rail. Without rails it knows no classes, and everything is public. The
 * rails are closed afterwards.
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

/**
 * Does what comes before a relay has the rails, and with them the duty to close them when it stops. Whatever of it fails, they are
 * closed.
 */
export async function orCloseRails<T>(rails: ReadonlyMap<string, LoadedRail>, body: () => Promise<T>): Promise<T> {
  try {
    return await body()
  } catch (error) {
    await closeRails(rails)
    throw error
  }
}

/** What a file of rails has opened would keep the process from ending. One that cannot close keeps nobody from it. */
async function closeRails(rails: ReadonlyMap<string, LoadedRail>): Promise<void> {
  await Promise.allSettled([...rails.values()].map((rail) => rail.close()))
}

/** The same for rails that are loaded already. Keys are read before anything else, so that a mistake in their file costs nothing. */
export async function protectionOf(
  rails: ReadonlyMap<string, LoadedRail>,
  vaultKeys: string | undefined,
): Promise<Protection> {
  const masters = vaultKeys === undefined ? undefined : await MasterKeyFile.open(vaultKeys)
  return { rails, masters, vault: new FieldVault(rails, masters) }
}

/**
 * The rails as a worker carries them. Refuses to start without a key that is in use: each payment that needs it would be held, and
 * every one of them takes a person to send on.
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
