import type { Command, Option } from 'commander'
import { EXIT_CODES_HELP } from './reportError.js'

/** What a command line may say, read from the program itself: for shells that complete it, and for the reference. */
export interface CommandSurface {
  /** `['holds', 'list']`; empty for the program. */
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
  /** `--reason`, and its short form if it has one. */
  readonly names: readonly string[]
  readonly description: string
  /** What stands after it; undefined for a switch. */
  readonly value: 'choice' | 'file' | 'folder' | 'text' | undefined
  readonly choices: readonly string[]
}

/** Of every command that is registered; hidden ones are left out. */
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
    // Without `help`, which commander adds to groups and which --help says as well.
    commands: command.commands.map((child) => surfaceOf(child, [...path, child.name()])),
  }
}

/** The program, and every command below it, groups included. */
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

/** A placeholder may list them: `<none|transaction>`. */
function choicesIn({ flags }: Option): readonly string[] {
  const placeholder = /<([a-z]+(?:\|[a-z]+)+)>/.exec(flags)?.[1]
  return placeholder?.split('|') ?? []
}

/** The page of every command, as the program itself explains it: `docs/reference/cli.md`. */
export function cliReference(program: Command): string {
  const commands = program.commands.flatMap((command) => withDescendants(command, []))
  return `# Every command

Generated from the program by \`node scripts/cliReference.mjs\`; a test holds the two together. \`symphony COMMAND --help\` says the same.

In a project that has installed the package, write \`npx symphony-pg COMMAND\`; in a checkout, \`./bin/symphony COMMAND\`.

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
