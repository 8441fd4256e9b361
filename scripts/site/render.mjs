// Renders a Markdown page as HTML: headings with anchors, links to other pages of the site, scrolling tables.
import { posix } from 'node:path'
import { Marked } from 'marked'
import { escapeHtml, highlight } from './highlight.mjs'
import { anchors, plainText } from './markdown.mjs'
import { imageAddress } from './sections.mjs'

/** Returns the page's HTML, and the paths of its images in the repository. */
export function renderPage(page, pages) {
  const shown = new Set()
  const anchorOf = anchors()
  const marked = new Marked({ gfm: true })
  marked.use({
    renderer: {
      heading({ tokens, depth }) {
        const anchor = escapeHtml(anchorOf(plainText(tokens)))
        const link = depth === 1 ? '' : ` <a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>`
        return `<h${depth} id="${anchor}">${this.parser.parseInline(tokens)}${link}</h${depth}>\n`
      },
      link({ href, tokens }) {
        const inner = this.parser.parseInline(tokens)
        const address = addressFrom(page, href, pages)
        // The target is a file of the repository but not of the site, so it cannot be a link.
        if (address === undefined)
          return `<span class="file" title="in the repository: ${escapeHtml(href)}">${inner}</span>`
        return `<a href="${escapeHtml(address)}">${inner}</a>`
      },
      image({ href, text }) {
        const image = posix.join(posix.dirname(page.file), href)
        shown.add(image)
        const source = escapeHtml(fromPage(page, imageAddress(image)))
        const kind = href.endsWith('.svg') ? ' class="diagram"' : ''
        return `<a class="picture" href="${source}"><img src="${source}" alt="${escapeHtml(text)}"${kind} loading="lazy"></a>`
      },
      code({ text, lang = '' }) {
        return `<pre tabindex="0"><code>${highlight(text, lang)}</code></pre>\n`
      },
      table(token) {
        const head = token.header.map((cell) => cellHtml(this.parser, cell, 'th')).join('')
        const rows = token.rows.map(
          (row) => `<tr>${row.map((cell) => cellHtml(this.parser, cell, 'td')).join('')}</tr>\n`,
        )
        const empty = token.header.every((cell) => cell.text === '')
        const header = empty ? '' : `<thead><tr>${head}</tr></thead>\n`
        return `<div class="table" tabindex="0"><table>${header}<tbody>\n${rows.join('')}</tbody></table></div>\n`
      },
      // Drops comments, which are for authors. Refuses other HTML.
      html({ text, raw }) {
        if (/^\s*(?:<!--[^]*?-->\s*)+$/.test(raw)) return ''
        throw new Error(`${page.file} holds HTML: ${text.slice(0, 60)}`)
      },
    },
  })
  return { html: marked.parser(page.tokens), shown }
}

function cellHtml(parser, { tokens, align }, element) {
  const side = align === 'right' ? ' class="right"' : ''
  if (element === 'th' && tokens.length === 0) return '<td></td>'
  return `<${element}${side}>${parser.parseInline(tokens)}</${element}>`
}

/** Returns the address of a link within the site; undefined if the target is not a page of the site. */
function addressFrom(page, href, pages) {
  if (/^[a-z]+:/i.test(href)) return href
  const [path = '', fragment] = href.split('#')
  const hash = fragment === undefined ? '' : `#${fragment}`
  if (path === '') return hash
  const target = pages.get(posix.join(posix.dirname(page.file), path))
  return target === undefined ? undefined : `${fromPage(page, target.address)}${hash}`
}

/** Returns the relative address from a page to another file of the site. */
export function fromPage(page, address) {
  return posix.relative(posix.dirname(page.address), address)
}
