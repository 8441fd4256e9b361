import { everyCommand, type CommandSurface, type OptionSurface } from '../surface.js'

/** Where a command line stands, as the generated scripts spell it: ` holds list`, or nothing for the program itself. */
export function placeOf({ path }: CommandSurface): string {
  return path.map((word) => ` ${word}`).join('')
}

/** The same of every command but the program: the places that words can lead to. */
export function placesIn(program: CommandSurface): readonly string[] {
  return everyCommand(program).slice(1).map(placeOf)
}

/** What may be typed next at a place: a word, and what it means. */
export interface NextWord {
  readonly word: string
  readonly description: string
}

export function nextWords({ commands, options, arguments: given }: CommandSurface): readonly NextWord[] {
  return [
    ...commands.map(({ path, description }) => ({ word: path.at(-1) ?? '', description })),
    ...given.flatMap(({ name, choices }) => choices.map((word) => ({ word, description: name }))),
    ...options.flatMap(({ names, description }) => names.map((word) => ({ word, description }))),
  ]
}

/** The options of a place after which something else than an option stands. */
export function optionsWithValue({ options }: CommandSurface): readonly OptionSurface[] {
  return options.filter(({ value }) => value !== undefined)
}

/** Between single quotes, as every shell but fish reads it. */
export function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
