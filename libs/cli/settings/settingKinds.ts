import { dirname, resolve } from 'node:path'
import { boundedInteger, InvalidArgumentError, requiredText, type Bounds, type JsonValue } from '../../core/index.js'

/** Place of a value, for error messages. */
export interface Place {
  /** `--lease-seconds`, `LEASE_SECONDS` or `leaseSeconds in symphony.json`. */
  readonly name: string
  readonly file?: string
}

/** Parsers of a setting: for the text of a flag or variable, and for JSON of a configuration file. */
export interface SettingKind<Value> {
  fromText(place: Place, text: string): Value
  fromJson(place: Place, value: JsonValue): Value
}

export function text(lengthMax: number): SettingKind<string> {
  const read = ({ name }: Place, value: unknown) => requiredText(name, value, lengthMax)
  return { fromText: read, fromJson: read }
}

/** Parses a path. A path in a configuration file is relative to that file, not to the working directory. */
export function path(): SettingKind<string> {
  return { fromText: readPath, fromJson: readPath }
}

function readPath({ name, file }: Place, value: unknown): string {
  const given = requiredText(name, value, 4_096)
  return file === undefined ? given : resolve(dirname(file), given)
}

export function wholeNumber(bounds: Bounds): SettingKind<number> {
  return {
    fromText: ({ name }, given) => {
      if (!/^-?\d{1,15}$/.test(given)) {
        throw new InvalidArgumentError(
          name,
          `expected a whole number from ${bounds.min} to ${bounds.max}, got "${given}"`,
        )
      }
      return boundedInteger(name, Number(given), bounds)
    },
    fromJson: ({ name }, value) => boundedInteger(name, value, bounds),
  }
}

export function choice<const Choice extends string>(choices: readonly Choice[]): SettingKind<Choice> {
  const read = ({ name }: Place, value: unknown) => {
    const chosen = choices.find((known) => known === value)
    if (chosen !== undefined) return chosen
    throw new InvalidArgumentError(name, `expected ${choices.join(', ')}, got ${JSON.stringify(value)}`)
  }
  return { fromText: read, fromJson: read }
}

export function switchedOn(): SettingKind<boolean> {
  return {
    fromText: ({ name }, given) => {
      if (given === 'true' || given === '1') return true
      if (given === 'false' || given === '0') return false
      throw new InvalidArgumentError(name, `expected true, false, 1 or 0, got "${given}"`)
    },
    fromJson: ({ name }, value) => {
      if (typeof value !== 'boolean') throw new InvalidArgumentError(name, 'expected true or false')
      return value
    },
  }
}
