// What both the site and the check of links know about a page in Markdown: its headings, their anchors, and where it points to.
import { Marked } from 'marked'

const marked = new Marked({ gfm: true })

/** The page as tokens. Comments of HTML are tokens too, and are shown to nobody. */
export function tokensOf(text) {
  return marked.lexer(text)
}

/** The headings in their order, each with the anchor that GitHub gives it. */
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

/** Everything a page links to or shows, as it is written. */
export function targetsOf(tokens) {
  const targets = []
  walk(tokens, (token) => {
    if (token.type === 'link' || token.type === 'image') targets.push(token.href)
  })
  return targets
}

/** Every token, those inside of others included. */
export function walk(tokens, visit) {
  void marked.walkTokens(tokens, visit)
}

/** As GitHub makes them: lower case, no punctuation, spaces to hyphens; a repeated one gets a number. */
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
