// Builds the HTML around a page: contents on the left, the page's sections on the right, the search box on top.
import { escapeHtml } from './highlight.mjs'
import { fromPage } from './render.mjs'

/** Content security policy: only files of this site; no inline script or style, no frame, no form. */
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'"

export function pageHtml({ page, contents, html }) {
  const to = (address) => escapeHtml(fromPage(page, address))
  const title = page.address === 'index.html' ? page.title : `${page.title} · Symphony`
  return `<!doctype html>
<html lang="en" data-root="${escapeHtml(rootOf(page))}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${escapeHtml(POLICY)}">
<meta name="color-scheme" content="light dark">
<meta name="description" content="${escapeHtml(`Symphony: ${page.title}`)}">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="${to('icon.svg')}" type="image/svg+xml">
<link rel="stylesheet" href="${to('site.css')}">
<script src="${to('site.js')}" defer></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
<header>
<a class="name" href="${to('index.html')}">Symphony</a>
<div class="search" role="search">
<input type="search" id="search" placeholder="Search  (/)" aria-label="Search the documentation" autocomplete="off" spellcheck="false" hidden>
<ol id="found" aria-label="Found" hidden></ol>
</div>
</header>
<div class="columns">
<nav aria-label="Contents"><details open><summary>Contents</summary>
${contents.map((section) => sectionHtml(section, page, to)).join('\n')}
</details></nav>
<main id="content" tabindex="-1">
${html}</main>
${onThisPage(page)}
</div>
</body>
</html>
`
}

function sectionHtml({ title, pages }, current, to) {
  const items = pages.map((page) => {
    const here = page === current ? ' aria-current="page"' : ''
    return `<li><a href="${to(page.address)}"${here}>${escapeHtml(shortTitle(page))}</a></li>`
  })
  return `<h2>${escapeHtml(title)}</h2>\n<ul>${items.join('')}</ul>`
}

/** Returns the title of a page in the contents. */
function shortTitle({ file, title }) {
  if (file === 'README.md') return 'What it is'
  if (file === 'docs/README.md') return 'All pages, by question'
  return title
}

function onThisPage({ headings }) {
  const sections = headings.filter(({ depth }) => depth === 2)
  if (sections.length < 3) return '<aside></aside>'
  const items = sections.map(({ text, anchor }) => `<li><a href="#${escapeHtml(anchor)}">${escapeHtml(text)}</a></li>`)
  return `<aside aria-label="On this page"><h2>On this page</h2><ul>${items.join('')}</ul></aside>`
}

/** Returns the relative path from a page to the root of the site, for the script that loads the search index. */
function rootOf({ address }) {
  return '../'.repeat(address.split('/').length - 1)
}
