// Wraps the prose of generated Markdown pages.

const WIDTH = 120
/** Maximum length of a code span that is kept whole. A longer span may be broken at its spaces. */
const WHOLE_SPAN = 60

/**
 * Returns the page with wrapped lines of paragraphs and list items. Tables, headings and fenced code stay unchanged.
 * @param {string} page
 * @returns {string}
 */
export function wrapMarkdown(page) {
  let isCode = false
  return page
    .split('\n')
    .map((line) => {
      if (line.startsWith('```')) isCode = !isCode
      return isCode || line.length <= WIDTH || /^(?:[|#<]|```)/.test(line) ? line : wrapLine(line)
    })
    .join('\n')
}

function wrapLine(line) {
  const [marker] = /^ *(?:- |\d+\. )?/.exec(line)
  const indent = ' '.repeat(marker.length)
  const words = wordsOf(line.slice(marker.length))
  const lines = []
  let current = marker + words[0]
  for (const word of words.slice(1)) {
    if (current.length + 1 + word.length <= WIDTH) current += ` ${word}`
    else {
      lines.push(current)
      current = indent + word
    }
  }
  return [...lines, current].join('\n')
}

/** Splits at spaces, except inside short code spans and before words that would start a list, a heading or a table. */
function wordsOf(text) {
  const parts = text.match(/(?:`[^`]*`|[^\s`])+/g) ?? ['']
  const words = []
  for (const part of parts.flatMap((one) => (one.length > WHOLE_SPAN ? one.split(' ') : [one]))) {
    if (words.length > 0 && /^(?:[-+*>|=]|#+|\d+[.)])$/.test(part)) words[words.length - 1] += ` ${part}`
    else words.push(part)
  }
  return words
}
