// The code of a page: each block with its language, what is said to it in comments of HTML before it, and the output that follows it.
// Readers do not see these comments; the tests and `npm run guides` do.
//
//   <!-- not run: why -->            cannot be executed, by whoever
//   <!-- given … -->                 TypeScript or SQL that a fragment supposes
//   <!-- setup … -->                 shell that comes before, and is nobody's business
//   <!-- in the background -->       goes on until the page ends
//   <!-- until it says: words -->    is repeated until it does
import { tokensOf, walk } from '../site/markdown.mjs'

/** Every block of a page, in its order. `line` is where its fence stands. */
export function codeBlocks(text) {
  const tokens = tokensOf(text)
  const blocks = []
  let notes = {}
  let at = 0
  for (const token of tokens) {
    const line = text.slice(0, at).split('\n').length
    at += token.raw.length
    if (token.type === 'html') Object.assign(notes, notesOf(token.raw))
    else if (token.type === 'code') {
      blocks.push({ language: token.lang ?? '', code: token.text, line, ...notes })
      notes = {}
    } else if (token.type !== 'space') {
      // A comment speaks to the block that follows it at once.
      if (Object.keys(notes).some((note) => note !== 'setup'))
        throw new Error(`line ${line}: a comment without its block`)
    }
  }
  requireOnTop(tokens, blocks.length)
  for (const [index, block] of blocks.entries()) block.output = outputOf(blocks[index + 1])
  return blocks
}

/** The file that a block says it is, in its first line. */
export function fileOf({ code, language }) {
  const [, name] = /^(?:\/\/|--) ([\w-]+(?:\.test)?\.(?:mjs|sql))\b/.exec(code) ?? []
  return ['js', 'ts', 'sql'].includes(language) ? name : undefined
}

function notesOf(comment) {
  const [, content = ''] = /^<!--(.*)-->\s*$/s.exec(comment) ?? []
  const text = content.trim()
  const told = (word) => (text.startsWith(word) ? text.slice(word.length).trim() : undefined)
  const notes = {
    notRun: told('not run:'),
    given: told('given'),
    setup: told('setup'),
    background: text === 'in the background' ? true : undefined,
    until: told('until it says:'),
  }
  return Object.fromEntries(Object.entries(notes).filter(([, value]) => value !== undefined))
}

function outputOf(next) {
  return next?.language === 'text' ? next.code : undefined
}

/** Inside of a list or a quotation nobody would look for code: neither these tests nor readers. */
function requireOnTop(tokens, found) {
  let all = 0
  walk(tokens, ({ type }) => {
    if (type === 'code') all += 1
  })
  if (all !== found) throw new Error('a block of code inside of something else')
}
