import { InvalidArgumentError as CommanderArgumentError, Option, type Command } from 'commander'

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

export function databaseUrlOption(): Option {
  return new Option('--database-url <url>', 'the database')
}

/** Command lines to start from, below the help of a command. */
export function addExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}
