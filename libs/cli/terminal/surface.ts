import type { Command, Option } from 'commander'
import { EXIT_CODES_HELP } from './reportError.js'

/** Description of the commands, for completion scripts and the CLI reference. */
export interface CommandSurface {
  /** Path such as `['holds', 'list']`; empty for the program. */
  readonly path: readonly string[]
  readonly description: string
  readonly arguments: readonly ArgumentSurface[]
  readonly options: readonly OptionSurface[]
  readonly commands: readonly CommandSurface[]
}

interface ArgumentSurface {
  readonly name: string
  readonly choices: readonly string[]
}

export interface OptionSurface {
  /** Long form such as `--reason`, and the short form if there is one. */
  readonly names: readonly string[]
  readonly description: string
  /** Kind of the option's value; undefined for an option without a value. */
  readonly value: 'choice' | 'file' | 'folder' | 'text' | undefined
  readonly choices: readonly string[]
}

/** Returns the description of a registered command and its subcommands, without hidden options. */
export function surfaceOf(command: Command, path: readonly string[] = []): CommandSurface {
  const help = command.createHelp()
  return {
    path,
    description: command.description(),
    arguments: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      choices: argument.argChoices ?? [],
    })),
    options: help.visibleOptions(command).map(surfaceOfOption),
    // Does not contain the `help` command of groups, which commander adds only to the help output.
    commands: command.commands.map((child) => surfaceOf(child, [...path, child.name()])),
  }
}

export function everyCommand(surface: CommandSurface): readonly CommandSurface[] {
  return [surface, ...surface.commands.flatMap(everyCommand)]
}

function surfaceOfOption(option: Option): OptionSurface {
  const choices = option.argChoices ?? choicesIn(option)
  return {
    names: [option.long, option.short].filter((name) => name !== undefined && name !== null),
    description: option.description,
    value: valueOf(option, choices),
    choices,
  }
}

function valueOf({ required, optional, flags }: Option, choices: readonly string[]): OptionSurface['value'] {
  if (!required && !optional) return undefined
  if (choices.length > 0) return 'choice'
  if (/<(?:file|path)>/.test(flags)) return 'file'
  return /<(?:folder|dir)>/.test(flags) ? 'folder' : 'text'
}

/** Returns the choices listed in a placeholder such as `<none|transaction>`. */
function choicesIn({ flags }: Option): readonly string[] {
  const placeholder = /<([a-z]+(?:\|[a-z]+)+)>/.exec(flags)?.[1]
  return placeholder?.split('|') ?? []
}

export function cliReference(program: Command): string {
  const commands = program.commands.flatMap((command) => withDescendants(command, []))
  return `# Command line reference

For operators: every command with its options. Generated from the program by \`node scripts/cliReference.mjs\`; a test
compares them. \`symphony COMMAND --help\` prints the same.

In a project that has installed the package, write \`npx symphony-pg COMMAND\`; in a checkout, \`./bin/symphony COMMAND\`.

Results go to stdout, messages for people to stderr. \`--json\` writes the result as one JSON object, and an error as
\`{"error": {"code", "message", "causes", "remedy"}}\` to stderr. Colours and progress bars appear only on a terminal.
\`NO_COLOR\` switches colours off. \`symphony completion bash|zsh|fish\` prints a completion script for your shell.

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
