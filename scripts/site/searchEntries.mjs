// What the search box looks through: for each section of each page its heading, its address, and the words that stand in it, once each.
import { anchors, plainText, walk } from './markdown.mjs'

/** `[page, heading, address, words]` for each section: arrays, because names would be half of the file. */
export function searchEntries(page) {
  const anchorOf = anchors()
  const entries = []
  let words = new Set()
  for (const token of page.tokens) {
    if (token.type === 'heading') {
      const heading = plainText(token.tokens)
      words = new Set()
      const anchor = anchorOf(heading)
      const address = token.depth === 1 ? page.address : `${page.address}#${anchor}`
      entries.push({ heading: token.depth === 1 ? '' : heading, address, words })
    }
    collect(token, words)
  }
  return entries.map(({ heading, address, words: found }) => [page.title, heading, address, [...found].join(' ')])
}

function collect(token, words) {
  walk([token], ({ type, text, tokens }) => {
    // Only leaves: what holds other tokens says the same again.
    if (tokens !== undefined || typeof text !== 'string' || type === 'html') return
    for (const word of text.toLowerCase().match(/[\p{L}\p{N}_][\p{L}\p{N}_.-]{1,39}/gu) ?? [])
      words.add(word.replace(/[.-]+$/, ''))
  })
}
