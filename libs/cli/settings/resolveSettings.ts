import { readFile } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { Option, type Command } from 'commander'
import {
  SymphonyError,
  InvalidArgumentError,
  isObject,
  nearestSpelling,
  parseStrictJson,
  type JsonObject,
} from '../../core/index.js'
import type { Cli } from '../terminal/Terminal.js'
import type { Place, SettingKind } from './settingKinds.js'
import { SETTINGS, type SettingName, type Settings } from './settings.js'

export function addSettings(
  command: Command,
  names: readonly SettingName[],
  defaults: Partial<Settings> = {},
): Command {
  for (const name of names) {
    const { flag, offFlag, help, env } = SETTINGS[name]
    if (flag === undefined) continue
    const value = defaults[name] ?? SETTINGS[name].default
    const notes = [env === undefined ? undefined : `also ${env}`, value === undefined ? undefined : `default: ${value}`]
    // Commander gets no default, because a default would hide whether the flag was given.
    command.addOption(new Option(flag, `${help} (${notes.filter(Boolean).join('; ')})`))
    if (offFlag !== undefined) command.addOption(new Option(offFlag, `the opposite of ${flag}`))
  }
  return command.addOption(
    new Option('--config <file>', 'JSON file of settings; flags and environment variables take precedence'),
  )
}

/** Parsed flags by setting name. */
export type GivenFlags = Readonly<Record<string, string | boolean | undefined>>

/**
 * Returns the values of these settings: from the flag, else the environment, else the configuration file, else the
 * default. An error names the flag, variable or key with the wrong value.
 */
export async function resolveSettings<Name extends SettingName>(
  names: readonly Name[],
  flags: GivenFlags,
  cli: Cli,
  defaults: Partial<Settings> = {},
): Promise<Pick<Settings, Name>> {
  const file = await readConfigFile(flags['config'])
  const resolved: unknown[][] = names.map((name) => [
    name,
    valueOf(name, flags, cli, file) ?? defaults[name] ?? SETTINGS[name].default,
  ])
  return Object.fromEntries(resolved)
}

interface ConfigFile {
  readonly path: string
  readonly content: JsonObject
}

function valueOf(name: SettingName, flags: GivenFlags, { env }: Cli, file: ConfigFile | undefined): unknown {
  const { flag, offFlag, env: variable } = SETTINGS[name]
  const kind: SettingKind<unknown> = SETTINGS[name].kind
  const given = flags[name]
  if (typeof given === 'boolean') return given
  if (given !== undefined) return kind.fromText({ name: nameOfFlag(flag ?? offFlag ?? name) }, given)
  const fromEnv = variable === undefined ? undefined : env[variable]
  if (variable !== undefined && fromEnv !== undefined && fromEnv !== '')
    return kind.fromText({ name: variable }, fromEnv)
  const fromFile = file?.content[name]
  if (file !== undefined && fromFile !== undefined) return kind.fromJson(placeIn(file, name), fromFile)
  return undefined
}

function nameOfFlag(flag: string): string {
  return flag.split(' ', 1)[0] ?? flag
}

function placeIn({ path }: ConfigFile, key: string): Place {
  return { name: `${key} in ${basename(path)}`, file: path }
}

async function readConfigFile(given: string | boolean | undefined): Promise<ConfigFile | undefined> {
  if (typeof given !== 'string') return undefined
  const path = resolve(given)
  let bytes: Buffer
  try {
    bytes = await readFile(path)
  } catch (error) {
    throw new SymphonyError('CONFIG_UNREADABLE', `The file that --config names cannot be read: ${path}.`, {
      cause: error,
    })
  }
  const content = parseStrictJson(bytes, { argument: basename(path) })
  if (!isObject(content)) throw new InvalidArgumentError(basename(path), 'expected an object of settings')
  const unknownKey = Object.keys(content).find((key) => !Object.hasOwn(SETTINGS, key))
  if (unknownKey !== undefined) {
    const meant = nearestSpelling(unknownKey, Object.keys(SETTINGS))
    throw new InvalidArgumentError(
      `${unknownKey} in ${basename(path)}`,
      meant === undefined
        ? `expected one of the settings ${Object.keys(SETTINGS).join(', ')}`
        : `expected a setting; did you mean ${meant}?`,
    )
  }
  return { path, content }
}
