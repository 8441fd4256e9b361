import type { Finding, Guardrail } from './guardrail.js'
import { isTypeScript, lineAt, type SourceFile } from './repository.js'
import { tokensOf } from './typescriptTokens.js'

/**
 * The dashboard shows stored values as text and never turns a string into markup or code. Its pages contain no inline
 * scripts and styles, which the content security policy blocks.
 */
export const dashboardShowsText: Guardrail = {
  name: 'the dashboard turns no text into markup or code',
  check: (repository) => {
    const files = repository.filter(({ path }) => path.startsWith('libs/dashboard/'))
    return [...files.filter(isTypeScript).flatMap(madeOfText), ...files.filter(isPage).flatMap(inlineParts)]
  },
}

/** Names that turn text into markup or code. The dashboard needs none of them, so every use is refused. */
const MAKERS = new Set([
  'dangerouslySetInnerHTML',
  'innerHTML',
  'outerHTML',
  'insertAdjacentHTML',
  'setHTMLUnsafe',
  'createContextualFragment',
  'DOMParser',
  'srcdoc',
  'eval',
  'Function',
])

function madeOfText(file: SourceFile): Finding[] {
  return tokensOf(file)
    .filter(({ kind, text }) => kind === 'word' && MAKERS.has(text))
    .map(({ text, line }) => ({ file: file.path, line, message: `${text} makes markup or code of text` }))
}

function isPage({ path }: SourceFile): boolean {
  return path.endsWith('.html')
}

const INLINE: readonly (readonly [RegExp, string])[] = [
  [/<[a-z][^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*\sstyle\s*=/gi, 'a style attribute'],
  [/<[a-z][^<>"']*(?:"[^"]*"[^<>"']*|'[^']*'[^<>"']*)*\son[a-z]+\s*=/gi, 'a handler attribute'],
  [/<style[\s>]/gi, 'an inline style sheet'],
  [/<script(?![^>]*\ssrc\s*=)[^>]*>/gi, 'an inline script'],
]

function inlineParts(file: SourceFile): Finding[] {
  return INLINE.flatMap(([pattern, what]) =>
    [...file.text.matchAll(pattern)].map(({ index }) => ({
      file: file.path,
      line: lineAt(file.text, index),
      message: `has ${what}, which the page's policy forbids`,
    })),
  )
}
