import type { Command } from 'commander'

/** Command lines to start from, below the help of a command. */
export function addExamples(command: Command, ...lines: readonly string[]): Command {
  return command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`)
}
