import type { Command } from 'commander'

/** One simple command of a shell: its words, without variables set for it and without redirections. */
type Words = readonly string[]

/** What a reader may type that is not ours. Anything else in a page is a mistake, or belongs here. */
const SHELL = new Set(['export', 'psql', 'mkdir', 'cd', 'chmod', 'rm', '.', 'node', 'npm', 'jq'])

/**
 * What is wrong with the commands of a block: commands, options and arguments that the program does not have, scripts that the
 * package does not have. Nothing is executed. A bar also separates alternatives, as pages list them: `symphony jobs list | runs`.
 */
export function wrongCommands(code: string, program: Command, scripts: Readonly<Record<string, string>>): string[] {
  const wrong: string[] = []
  let before: Words = []
  for (const { words, piped } of commandsOf(code)) {
    const [name = '', ...rest] = words
    if (/(?:^|\/)symphony$/.test(name)) {
      before = rest
      wrong.push(...wrongArguments(program, rest))
    } else if (piped && !SHELL.has(name)) {
      wrong.push(...wrongArguments(program, alternativeTo(program, before, words)))
    } else if (name === 'npm') {
      wrong.push(...wrongScript(rest, scripts))
    } else if (!SHELL.has(name)) {
      wrong.push(`nobody knows ${name}`)
    }
  }
  return wrong
}

/** `runs` after `jobs list` is `jobs runs`; `show` after `status` is `show`. */
function alternativeTo(program: Command, before: Words, words: Words): Words {
  const [first = ''] = before
  const parent = commandOf(program, [first]).command
  return parent.commands.length > 0 ? [first, ...words] : words
}

function wrongScript([verb = '', name = '']: Words, scripts: Readonly<Record<string, string>>): string[] {
  if (['ci', 'init', 'install', 'start', 'test'].includes(verb)) return []
  return verb === 'run' && scripts[name] !== undefined ? [] : [`npm ${verb} ${name}`]
}

function wrongArguments(program: Command, words: Words): string[] {
  const { command, rest } = commandOf(program, words)
  const said = `symphony ${words.join(' ')}`
  if (command === program) return [`${said}: no such command`]
  const wrong: string[] = []
  let given = 0
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at] ?? ''
    if (word === '…') return wrong
    if (!word.startsWith('--')) {
      given += 1
      continue
    }
    const option = [...command.options, ...program.options].find(({ long }) => long === word)
    if (option === undefined) wrong.push(`${said}: no such option ${word}`)
    else if (option.required) at += 1
  }
  if (command.commands.length > 0 && given > 0) wrong.push(`${said}: no such command`)
  if (given > command.registeredArguments.length) wrong.push(`${said}: too many arguments`)
  return wrong
}

function commandOf(program: Command, words: Words): { readonly command: Command; readonly rest: Words } {
  const [word, ...rest] = words
  const child = program.commands.find((one) => one.name() === word)
  return child === undefined ? { command: program, rest: words } : commandOf(child, rest)
}

interface Spoken {
  readonly words: Words
  /** After a bar. */
  readonly piped: boolean
}

/** As much of a shell's grammar as the pages need: quotes, comments, lines that go on, `&&`, `;`, bars, redirections, variables. */
function commandsOf(code: string): readonly Spoken[] {
  const spoken: Spoken[] = []
  for (const line of code.replaceAll('\\\n', ' ').split('\n')) {
    let piped = false
    let words: string[] = []
    const end = () => {
      const command = words.slice(words.findIndex((word) => !/^\w+=/.test(word)))
      if (words.some((word) => !/^\w+=/.test(word))) spoken.push({ words: withoutEnv(command), piped })
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
  return spoken
}

function withoutEnv(words: Words): Words {
  return words[0] === 'env' ? words.slice(3) : words
}
