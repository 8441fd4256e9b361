import type { SourceFile } from './repository.js'

/**
 * Token of a small TypeScript tokenizer. It recognizes strings, templates with nested code, comments and regular
 * expressions, but not the grammar. TypeScript 7 has no compiler API.
 */
export interface Token {
  readonly kind: 'word' | 'punctuator' | 'string' | 'template' | 'regex'
  readonly line: number
  /** Text of a word or punctuator; value of a string; text of a template with `HOLE` for each `${…}`. */
  readonly text: string
}

/** Stands for a computed part of a template. No source file uses this character. */
export const HOLE = '\uFFFC'

export function tokensOf(file: SourceFile): readonly Token[] {
  const known = cache.get(file)
  if (known !== undefined) return known
  const tokens = new Tokenizer(file.text).run()
  cache.set(file, tokens)
  return tokens
}

const cache = new WeakMap<SourceFile, readonly Token[]>()

class Tokenizer {
  readonly #text: string
  readonly #tokens: Token[] = []
  #offset = 0
  #line = 1

  constructor(text: string) {
    this.#text = text
  }

  run(): readonly Token[] {
    this.#code(undefined)
    return this.#tokens
  }

  /** Reads code up to the end, or up to the `}` that closes a `${` of a template. */
  #code(closer: '}' | undefined): void {
    let openBraces = 0
    while (this.#offset < this.#text.length) {
      const character = this.#text.charAt(this.#offset)
      if (character === '}' && closer === '}' && openBraces === 0) return
      if (character === '{') openBraces += 1
      if (character === '}') openBraces -= 1
      this.#next(character)
    }
  }

  #next(character: string): void {
    if (this.#take(/[ \t\r\n]+/y) !== undefined || this.#take(/\/\/[^\n]*|\/\*[^]*?\*\//y) !== undefined) return
    if (character === '`') return this.#template()
    const line = this.#line
    const quoted = this.#take(/'(?:[^'\\\n]|\\[^])*'|"(?:[^"\\\n]|\\[^])*"/y)
    if (quoted !== undefined) return this.#push('string', line, unescape(quoted.slice(1, -1)))
    if (character === '/' && this.#regexMayStart()) {
      const regex = this.#take(/\/(?![*/])(?:[^/\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+\/[a-z]*/y)
      if (regex !== undefined) return this.#push('regex', line, regex)
    }
    const word = this.#take(/[\p{ID_Start}$_#\d][\p{ID_Continue}$\u200C\u200D]*/uy)
    if (word !== undefined) return this.#push('word', line, word)
    this.#offset += character.length
    this.#push('punctuator', line, character)
  }

  #template(): void {
    const line = this.#line
    let text = ''
    this.#offset += 1
    // Added before its nested code, so that tokens are in the order of their first characters.
    const position = this.#tokens.push({ kind: 'template', line, text }) - 1
    while (this.#offset < this.#text.length) {
      text += unescape(this.#take(/(?:[^`\\$]|\\[^]|\$(?!\{))+/y) ?? '')
      if (this.#text.charAt(this.#offset) === '`') break
      this.#offset += 2
      this.#code('}')
      this.#offset += 1
      text += HOLE
    }
    this.#offset += 1
    this.#tokens[position] = { kind: 'template', line, text }
  }

  /** Returns whether a slash starts a regular expression. After a value it is a division. */
  #regexMayStart(): boolean {
    const previous = this.#tokens.at(-1)
    if (previous === undefined || previous.text === '<') return previous === undefined
    if (previous.kind === 'word') return WORDS_BEFORE_REGEX.has(previous.text)
    return previous.kind === 'punctuator' && previous.text !== ')' && previous.text !== ']'
  }

  #take(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#offset
    const taken = pattern.exec(this.#text)?.[0]
    if (taken === undefined) return undefined
    this.#offset += taken.length
    this.#line += taken.split('\n').length - 1
    return taken
  }

  #push(kind: Token['kind'], line: number, text: string): void {
    this.#tokens.push({ kind, line, text })
  }
}

const WORDS_BEFORE_REGEX = new Set(
  'await case delete do else in instanceof new of return throw typeof void yield'.split(' '),
)

function unescape(source: string): string {
  return source.replaceAll(ESCAPE, (_whole, brace?: string, four?: string, two?: string, character?: string) => {
    const code = brace ?? four ?? two
    if (code !== undefined) return String.fromCodePoint(Number.parseInt(code, 16))
    return character === undefined ? '' : (ESCAPES[character] ?? character)
  })
}

const ESCAPE = /\\(?:\r?\n|u\{([\da-fA-F]+)\}|u([\da-fA-F]{4})|x([\da-fA-F]{2})|([^]))/g

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', t: '\t', r: '\r', b: '\b', f: '\f', v: '\v', 0: '\0' }
