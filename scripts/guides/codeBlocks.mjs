// Reads the code blocks of a page: language, notes in the HTML comments before the block, and the output after it.
// Readers do not see the comments; the tests and `npm run guides` read them.
//
//   <!-- not run: why -->            the block cannot be executed
//   <!-- given … -->                 TypeScript or SQL that the block depends on
//   <!-- setup … -->                 shell commands to run first, not shown to the reader
//   <!-- continues page.md -->       `npm run guides` first runs that page, which is in the same folder
//   <!-- in the background -->       runs until the page ends
//   <!-- until it says: words -->    is repeated until its output contains the words
//   <!-- exits with 1 -->            ends with this exit code
import { tokensOf, walk } from '../site/markdown.mjs'

/** Returns the blocks of a page in order. `line` is the line of the fence. */
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
      // Refuses text between a comment and its block, unless the comment is `setup`.
      if (Object.keys(notes).some((note) => note !== 'setup'))
        throw new Error(`line ${line}: a comment without its block`)
    }
  }
  requireOnTop(tokens, blocks.length)
  for (const [index, block] of blocks.entries()) block.output = outputOf(blocks[index + 1])
  return blocks
}

/** Returns the name of the page that this page continues. */
export function continuedPage(text) {
  return /^<!-- continues ([\w-]+\.md) -->$/m.exec(text)?.[1]
}

/** Returns the file name in the comment on a block's first line. */
export function fileOf({ code, language }) {
  const [, name] = /^(?:\/\/|--|<!--) ([\w-]+(?:\.test)?\.(?:mjs|ts|sql|xml))\b/.exec(code) ?? []
  return ['js', 'ts', 'sql', 'xml'].includes(language) ? name : undefined
}

function notesOf(comment) {
  const [, content = ''] = /^<!--(.*)-->\s*$/s.exec(comment) ?? []
  const text = content.trim()
  const argumentOf = (word) => (text.startsWith(word) ? text.slice(word.length).trim() : undefined)
  const notes = {
    notRun: argumentOf('not run:'),
    given: argumentOf('given'),
    setup: argumentOf('setup'),
    background: text === 'in the background' ? true : undefined,
    until: argumentOf('until it says:'),
    exitCode: argumentOf('exits with'),
  }
  return Object.fromEntries(Object.entries(notes).filter(([, value]) => value !== undefined))
}

function outputOf(next) {
  return next?.language === 'text' ? next.code : undefined
}

/** Refuses code blocks in a list or quotation, because `codeBlocks` reads only the top level. */
function requireOnTop(tokens, found) {
  let all = 0
  walk(tokens, ({ type }) => {
    if (type === 'code') all += 1
  })
  if (all !== found) throw new Error('a code block is inside a list or a quotation')
}
