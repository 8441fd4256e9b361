import { dirname, resolve } from 'node:path'
import { boundedInteger, InvalidArgumentError, requiredText, type Bounds, type JsonValue } from '../../core/index.js'

/** Where a value stands, in the words of the person who wrote it. */
export interface Place {
  /** `--lease-seconds`, `LEASE_SECONDS`, `leaseSeconds in symphony.json`: what an error calls it. */
  readonly name: string
  /** The configuration file that holds it. */
  readonly file?: string
}

/** How a value is read: from the text of a flag or a variable, or from the JSON of a configuration file. */
export interface SettingKind<Value> {
  fromText(place: Place, text: string): Value
  fromJson(place: Place, value: JsonValue): Value
}

export function text(lengthMax: number): SettingKind<string> {
  const read = ({ name }: Place, value: unknown) => requiredText(name, value, lengthMax)
  return { fromText: read, fromJson: read }
}

/** In a configuration file, a path is relative to the file: it means the same wherever the process is started. */
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
