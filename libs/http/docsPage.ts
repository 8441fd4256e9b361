/**
 * Page at /docs, which shows /openapi.json. It inserts everything as text, never as markup, and uses only its own
 * script file, so that it works under the same content security policy as the dashboard.
 */
export const DOCS_FILES: Readonly<Record<string, { readonly type: string; readonly content: string }>> = {
  '/docs': {
    type: 'text/html; charset=utf-8',
    content: `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Symphony: HTTP API</title>
    <link rel="stylesheet" href="/docs/page.css">
    <script src="/docs/page.js" defer></script>
  </head>
  <body>
    <header><h1>Symphony: HTTP API</h1><p>For programs: <a href="/openapi.json">/openapi.json</a></p></header>
    <main id="routes" aria-live="polite"><p>Reading /openapi.json …</p></main>
  </body>
</html>
`,
  },
  '/docs/page.css': {
    type: 'text/css; charset=utf-8',
    content: `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 0 auto; padding: 1rem }
h2 { margin-top: 2.5rem; text-transform: capitalize }
details { border-top: 1px solid #8886; padding: .5rem 0 }
summary { cursor: pointer }
code, pre { font: .875rem/1.5 ui-monospace, monospace }
pre { overflow-x: auto; padding: .75rem; background: #8881; border-radius: .25rem }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 }
.note { opacity: .8 }
table { border-collapse: collapse } td, th { text-align: left; padding: .125rem 1rem .125rem 0; vertical-align: top }
`,
  },
  '/docs/page.js': {
    type: 'text/javascript; charset=utf-8',
    content: `'use strict'
const main = document.getElementById('routes')

function element(name, text, className) {
  const made = document.createElement(name)
  if (text !== undefined) made.textContent = text
  if (className !== undefined) made.className = className
  return made
}

function json(title, value) {
  const part = document.createDocumentFragment()
  part.append(element('h4', title), element('pre', JSON.stringify(value, null, 2)))
  return part
}

function parameters(list) {
  const table = element('table')
  for (const { name, in: place, required, schema, example } of list) {
    const row = element('tr')
    const facts = [place, required ? 'required' : 'optional', schema.description, example === undefined ? '' : 'such as ' + example]
    const cell = element('td')
    cell.append(element('code', name))
    row.append(cell, element('td', facts.filter(Boolean).join(', ')))
    table.append(row)
  }
  return table
}

function operation(path, method, one) {
  const box = element('details')
  const head = element('summary')
  head.append(element('span', method.toUpperCase(), 'method'), element('code', path))
  box.append(head, element('p', one.summary))
  const scope = one.security.length === 0 ? 'open' : one.security[0].bearer[0]
  box.append(element('p', 'Scope: ' + scope, 'note'))
  if (one.parameters.length > 0) box.append(parameters(one.parameters))
  for (const [type, body] of Object.entries(one.requestBody ? one.requestBody.content : {})) {
    if (type === 'application/json') box.append(json('Request', body.example))
    else box.append(element('h4', 'Request: ' + type), element('pre', body.example || 'a file'))
  }
  for (const [status, answer] of Object.entries(one.responses)) {
    const content = answer.content['application/json']
    if (content && content.example !== undefined) box.append(json(status + ' ' + answer.description, content.example))
    else box.append(element('p', status + ' ' + answer.description, 'note'))
  }
  return box
}

fetch('/openapi.json')
  .then((response) => response.json())
  .then((description) => {
    main.replaceChildren()
    for (const { name, description: rules } of description.tags) {
      main.append(element('h2', name))
      if (rules !== undefined) main.append(element('p', rules))
      for (const [path, methods] of Object.entries(description.paths)) {
        for (const [method, one] of Object.entries(methods)) {
          if (one.tags.includes(name)) main.append(operation(path, method, one))
        }
      }
    }
  })
  .catch((error) => main.replaceChildren(element('p', '/openapi.json could not be read: ' + error.message)))
`,
  },
}
