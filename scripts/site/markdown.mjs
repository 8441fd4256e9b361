// Parses Markdown for the site and the link check: headings, anchors and link targets.
import { Marked } from 'marked'

const marked = new Marked({ gfm: true })

/** Returns the page as tokens, HTML comments included. */
export function tokensOf(text) {
  return marked.lexer(text)
}

/** Returns the headings in order, each with its GitHub anchor. */
export function headingsOf(tokens) {
  const anchorOf = anchors()
  const headings = []
  walk(tokens, (token) => {
    if (token.type !== 'heading') return
    const text = plainText(token.tokens)
    headings.push({ depth: token.depth, text, anchor: anchorOf(text) })
  })
  return headings
}

/** Returns the targets of all links and images, as written. */
export function targetsOf(tokens) {
  const targets = []
  walk(tokens, (token) => {
    if (token.type === 'link' || token.type === 'image') targets.push(token.href)
  })
  return targets
}

/** Visits every token, nested ones included. */
export function walk(tokens, visit) {
  void marked.walkTokens(tokens, visit)
}

/** Creates anchors like GitHub: lower case, no punctuation, spaces to hyphens, a number after a repeated anchor. */
export function anchors() {
  const given = new Map()
  return (heading) => {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\p{M}\p{Pc} -]/gu, '')
      .replaceAll(' ', '-')
    const before = given.get(anchor) ?? 0
    given.set(anchor, before + 1)
    return before === 0 ? anchor : `${anchor}-${before}`
  }
}

export function plainText(tokens) {
  return tokens.map((token) => (token.tokens ? plainText(token.tokens) : unescaped(token.text ?? ''))).join('')
}

function unescaped(text) {
  return text
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&')
}
