import type { Command } from 'commander'
import { EXIT_CODES_HELP } from './exitCodes.js'

/** The page of every command, as the program itself explains it: `docs/reference/cli.md`. */
export function cliReference(program: Command): string {
  const commands = program.commands.flatMap((command) => withDescendants(command, []))
  return `# Every command

Generated from the program by \`node scripts/cliReference.mjs\`; a test holds the two together. \`symphony COMMAND --help\` says the same.

Results go to stdout and everything said to a person to stderr. \`--json\` writes the result as one JSON object, and an error as
\`{"error": {"code", "message", "causes", "remedy"}}\` to stderr. Colours and progress bars appear only on a terminal, and colours not where
\`NO_COLOR\` is set. \`symphony completion bash|zsh|fish\` prints a script with which your shell completes all of this.

## Exit codes

\`\`\`text
${EXIT_CODES_HELP.trim()}
\`\`\`

${commands.map(section).join('\n\n')}
`
}

interface Placed {
  readonly command: Command
  readonly path: readonly string[]
}

function withDescendants(command: Command, above: readonly string[]): readonly Placed[] {
  const path = [...above, command.name()]
  return [{ command, path }, ...command.commands.flatMap((child) => withDescendants(child, path))]
}

function section({ command, path }: Placed): string {
  return `## symphony ${path.join(' ')}\n\n\`\`\`text\n${helpOf(command).trim()}\n\`\`\``
}

/** What --help prints, in the width of a page. */
export function helpOf(command: Command): string {
  let text = ''
  command.configureOutput({
    writeOut: (part) => {
      text += part
    },
    getOutHelpWidth: () => 120,
    getOutHasColors: () => false,
  })
  command.outputHelp()
  return text
}
