import type { Command, Option } from 'commander'

/** What a command line may say, read from the program itself: for shells that complete it, and for the reference. */
export interface CommandSurface {
  /** `['holds', 'list']`; empty for the program. */
  readonly path: readonly string[]
  readonly description: string
  readonly arguments: readonly ArgumentSurface[]
  readonly options: readonly OptionSurface[]
  readonly commands: readonly CommandSurface[]
}

export interface ArgumentSurface {
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
