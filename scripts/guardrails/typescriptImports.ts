import type { SourceFile } from './repository.js'
import { tokensOf, type Token } from './typescriptTokens.js'

export interface ImportedModule {
  readonly specifier: string
  readonly line: number
  /** Whether the import is `import type`, which is no dependency at run time. */
  readonly typeOnly: boolean
}

/** Returns the imports of a file: static, re-exported, dynamic and `require`. */
export function importsOf(file: SourceFile): readonly ImportedModule[] {
  const tokens = tokensOf(file)
  return tokens.flatMap((token, position) => {
    if (token.kind !== 'word' || tokens[position - 1]?.text === '.') return []
    const rest = tokens.slice(position + 1, position + 1 + CLAUSE_TOKENS_MAX)
    const specifier =
      token.text === 'import'
        ? (sideEffect(rest) ?? called(rest) ?? from(rest))
        : token.text === 'export'
          ? reExported(rest)
          : token.text === 'require'
            ? called(rest)
            : undefined
    return specifier === undefined ? [] : [{ specifier, line: token.line, typeOnly: isTypeOnly(rest) }]
  })
}

/** Maximum number of tokens in an import clause. Without a limit, a stray `import` could match a distant `from`. */
const CLAUSE_TOKENS_MAX = 400

function sideEffect([first]: readonly Token[]): string | undefined {
  return literal(first)
}

function called([first, second]: readonly Token[]): string | undefined {
  return first?.text === '(' ? literal(second) : undefined
}

function reExported(rest: readonly Token[]): string | undefined {
  const [first, second] = rest
  const opener = first?.text === 'type' ? second : first
  return opener?.text === '{' || opener?.text === '*' ? from(rest) : undefined
}

/** Returns the specifier after `from`. A clause contains words, commas, braces and a star; any other token ends it. */
function from(rest: readonly Token[]): string | undefined {
  for (const [position, token] of rest.entries()) {
    const next = rest[position + 1]
    if (token.text === 'from' && next?.kind === 'string') return next.text
    if (token.kind !== 'word' && !['{', '}', ',', '*'].includes(token.text)) return undefined
    if (token.text === '}' && next?.text !== 'from') return undefined
  }
  return undefined
}

function isTypeOnly([first, second]: readonly Token[]): boolean {
  return first?.text === 'type' && second?.text !== 'from' && second?.text !== ','
}

function literal(token: Token | undefined): string | undefined {
  return token?.kind === 'string' || token?.kind === 'template' ? token.text : undefined
}
