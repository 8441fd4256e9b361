import { InvalidArgumentError as CommanderArgumentError, Option, type Command } from 'commander'

export function jsonOption(): Option {
  return new Option('--json', 'print the result or the error as JSON')
}

/** Returns the flag of an option: `--not-before` of `notBefore`. */
export function flagOf(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
}

/** Parses a whole number. The command checks its range. */
export function parseWholeNumber(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new CommanderArgumentError(`Expected a whole number, got "${text}".`)
  return Number(text)
}

export function databaseUrlOption(): Option {
  return new Option('--database-url <url>', 'connection URL of the database')
}

export function addExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}
