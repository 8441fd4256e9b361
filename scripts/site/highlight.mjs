// Highlights comments, strings, numbers and keywords by one regular expression per language. A library would be larger
// than the site.

const JAVASCRIPT =
  'as async await break case catch class const continue declare default delete else export extends finally for from function if import in instanceof interface let new null of readonly return satisfies static switch throw true false try type typeof undefined using var void while yield'
const SQL =
  'add all alter and as begin between by case check comment commit create database default delete desc distinct drop else end exists false for from function grant group having if in index inherit insert into is join key language left limit login not null on or order password primary reference references returning revoke role rollback schema select set table then to true truncate union unique update usage using values view when where with'

const WORDS = { js: words(JAVASCRIPT), ts: words(JAVASCRIPT), sql: words(SQL), json: words('true false null') }
const SCRIPT =
  /(?<comment>\/\/[^\n]*|\/\*[^]*?\*\/)|(?<text>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|`(?:\\.|[^`\\])*`)|(?<number>\b\d[\d_.]*n?\b)|(?<word>[A-Za-z_$][\w$]*)/g
const PATTERNS = {
  js: SCRIPT,
  ts: SCRIPT,
  json: /(?<text>"(?:\\.|[^"\\])*")|(?<number>-?\b\d[\d.]*\b)|(?<word>[a-z]+)/g,
  sql: /(?<comment>--[^\n]*)|(?<text>'(?:''|[^'])*')|(?<number>\b\d[\d.]*\b)|(?<word>[A-Za-z_]\w*)/g,
  console:
    /(?<comment>(?<=^|\s)#[^\n]*)|(?<text>'[^']*'|"[^"]*")|(?<number>(?<=\s)--?[a-z][\w-]*)|(?<word>^[\w./-]+)/gm,
  yaml: /(?<comment>#[^\n]*)|(?<text>'[^']*'|"[^"]*")|(?<number>\b\d+\b)|(?<word>^\s*[\w-]+(?=:))/gm,
}
const SAME_AS = { mjs: 'js', javascript: 'js', typescript: 'ts', sh: 'console', bash: 'console', yml: 'yaml' }

/** Returns the code as HTML; without colours for an unknown language. */
export function highlight(code, language) {
  const name = SAME_AS[language] ?? language
  const pattern = PATTERNS[name]
  if (pattern === undefined) return escapeHtml(code)
  let html = ''
  let end = 0
  for (const match of code.matchAll(pattern)) {
    const kind = kindOf(match.groups, name)
    html += escapeHtml(code.slice(end, match.index))
    html += kind === undefined ? escapeHtml(match[0]) : `<span class="${kind}">${escapeHtml(match[0])}</span>`
    end = match.index + match[0].length
  }
  return html + escapeHtml(code.slice(end))
}

function kindOf({ comment, text, number, word }, language) {
  if (comment !== undefined) return 'c'
  if (text !== undefined) return 's'
  if (number !== undefined) return 'n'
  return WORDS[language] === undefined || WORDS[language].has(word.toLowerCase()) ? 'k' : undefined
}

export function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

function words(list) {
  return new Set(list.split(' '))
}
