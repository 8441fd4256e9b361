interface CommandSurface {
  /** Long option names, each with whether it takes a value. */
  readonly options: ReadonlyMap<string, boolean>
  readonly arguments: number
  readonly hasCommands: boolean
}

/** Commands by their names, such as `ledger verify`. */
export type Reference = ReadonlyMap<string, CommandSurface>

/**
 * Parses docs/reference/cli.md instead of loading the commands, which takes seconds. Another test compares the page
 * with the commands.
 */
export function readReference(page: string): Reference {
  const sections = page.split(/^## symphony /m).slice(1)
  return new Map(
    sections.map((section) => {
      const [name = '', usage = ''] = /^(.*)\n+```text\nUsage: (.*)/.exec(section)?.slice(1) ?? []
      const options = [...section.matchAll(/^ {2}(?:-\w, )?(--[\w-]+)( <)?/gm)]
      return [
        name,
        {
          options: new Map(options.map(([, option = '', value]) => [option, value !== undefined])),
          arguments: [...usage.matchAll(/<[^>]+>|\[(?!options|command)[^\]]+\]/g)].length,
          hasCommands: usage.includes('[command]'),
        },
      ]
    }),
  )
}

/** Words of one shell command, without its variables and redirections. */
type Words = readonly string[]

/** Programs of the shell that pages may use. */
const SHELL = new Set([
  '.',
  'apt-get',
  'cd',
  'chmod',
  'cp',
  'export',
  'jq',
  'mkdir',
  'node',
  'npm',
  'psql',
  'rm',
  'touch',
])
/** Programs that come with PostgreSQL. */
const SERVER = new Set(['pg_basebackup', 'pg_dump', 'pg_restore', 'pg_ctl', 'pg_verifybackup'])

/**
 * Returns unknown commands, options, arguments and npm scripts in a block of shell code. Nothing is executed. A `|` may
 * also separate alternatives: `symphony jobs list | runs`.
 */
export function wrongCommands(code: string, reference: Reference, scripts: Readonly<Record<string, string>>): string[] {
  const wrong: string[] = []
  let before: Words = []
  for (const { words, piped } of commandsOf(code)) {
    const [name = '', ...rest] = words
    if (/(?:^|\/)symphony$/.test(name)) {
      before = rest
      wrong.push(...wrongArguments(reference, rest))
    } else if (piped && !SHELL.has(name)) {
      wrong.push(...wrongArguments(reference, alternativeTo(reference, before, words)))
    } else if (name === 'npm') {
      wrong.push(...wrongScript(rest, scripts))
    } else if (!SHELL.has(name) && !SERVER.has(name)) {
      wrong.push(`unknown program ${name}`)
    }
  }
  return wrong
}

/** Completes an alternative: `runs` after `jobs list` is `jobs runs`; `show` after `status` is `show`. */
function alternativeTo(reference: Reference, [first = '']: Words, words: Words): Words {
  return reference.get(first)?.hasCommands === true ? [first, ...words] : words
}

function wrongScript([verb = '', name = '']: Words, scripts: Readonly<Record<string, string>>): string[] {
  if (['ci', 'init', 'install', 'pack', 'start', 'test'].includes(verb)) return []
  return verb === 'run' && scripts[name] !== undefined ? [] : [`npm ${verb} ${name}`]
}

function wrongArguments(reference: Reference, words: Words): string[] {
  const { command, rest } = commandOf(reference, words)
  const line = `symphony ${words.join(' ')}`
  if (command === undefined) return [`${line}: no such command`]
  const wrong: string[] = []
  let given = 0
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at] ?? ''
    if (word === '…') return wrong
    if (!word.startsWith('--')) {
      given += 1
      continue
    }
    const takesValue = command.options.get(word)
    if (takesValue === undefined) wrong.push(`${line}: no such option ${word}`)
    else if (takesValue) at += 1
  }
  if (given > command.arguments) wrong.push(`${line}: too many arguments, or no such command`)
  return wrong
}

/** Finds the longest command at the start of the words. */
function commandOf(
  reference: Reference,
  words: Words,
): { readonly command: CommandSurface | undefined; readonly rest: Words } {
  for (let length = 2; length > 0; length -= 1) {
    const command = reference.get(words.slice(0, length).join(' '))
    if (command !== undefined) return { command, rest: words.slice(length) }
  }
  return { command: undefined, rest: words }
}

interface ParsedCommand {
  readonly words: Words
  /** Whether the command follows a `|`. */
  readonly piped: boolean
}

/**
 * Splits shell code as far as the pages need: quotes, comments, continued lines, `&&`, `;`, `|`, redirections,
 * variables.
 */
function commandsOf(code: string): readonly ParsedCommand[] {
  const parsed: ParsedCommand[] = []
  for (const line of code.replaceAll('\\\n', ' ').split('\n')) {
    let piped = false
    let words: string[] = []
    const end = () => {
      const command = words.slice(words.findIndex((word) => !/^\w+=/.test(word)))
      if (words.some((word) => !/^\w+=/.test(word))) parsed.push({ words: withoutEnv(command), piped })
      words = []
    }
    for (const token of line.match(/#.*|\d?>>?\s*\S+|&&|;|\||(?:"(?:\\.|[^"])*"|'[^']*'|\$\([^)]*\)|[^\s"';|&])+/g) ??
      []) {
      if (token.startsWith('#')) break
      if (token === '&&' || token === ';' || token === '|') {
        end()
        piped = token === '|'
      } else if (!/^\d?>/.test(token)) {
        words.push(token)
      }
    }
    end()
  }
  return parsed
}

function withoutEnv(words: Words): Words {
  return words[0] === 'env' ? words.slice(3) : words
}
