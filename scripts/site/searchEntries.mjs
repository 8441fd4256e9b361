// Builds the search index: heading, address and distinct words of each section.
import { anchors, plainText, walk } from './markdown.mjs'

/**
 * Returns `[page, heading, address, words]` for each section. An entry is an array, because property names would double
 * the size of the index.
 */
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
    // Reads only leaves, because a parent token repeats the text of its children.
    if (tokens !== undefined || typeof text !== 'string' || type === 'html') return
    for (const word of text.toLowerCase().match(/[\p{L}\p{N}_][\p{L}\p{N}_.-]{1,39}/gu) ?? [])
      words.add(word.replace(/[.-]+$/, ''))
  })
}
