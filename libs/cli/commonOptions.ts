import { InvalidArgumentError as CommanderArgumentError, Option } from 'commander'

/** Options that several commands take, spelled and explained in one place. */
export function dataDirOption(): Option {
  return new Option('--data-dir <folder>', 'folder of the embedded PostgreSQL').default('.symphony')
}

export function jsonOption(): Option {
  return new Option('--json', 'write the result, or the error, as JSON')
}

/** For options that are whole numbers; their bounds are checked by what uses them. */
export function parseWholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new CommanderArgumentError(`Expected a whole number, got "${text}".`)
  return Number(text)
}
