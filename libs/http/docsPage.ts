/**
 * Page at /docs. It shows and searches /openapi.json and sends requests. It inserts all values as text and loads only
 * its own script file, so it works under the content security policy of the dashboard.
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
    <link rel="stylesheet" href="docs/page.css">
    <script src="docs/page.js" defer></script>
  </head>
  <body>
    <header>
      <h1>Symphony: HTTP API</h1>
      <p>For programs: <a href="openapi.json">/openapi.json</a></p>
      <div class="tools">
        <label>Search operations
          <input id="search" type="search" autocomplete="off" spellcheck="false">
        </label>
        <label>Access token, to send requests
          <input id="token" type="password" autocomplete="off" spellcheck="false" aria-describedby="token-note">
        </label>
      </div>
      <p class="note" id="token-note">The token stays in the memory of this page. A reload removes it.</p>
      <p class="note" id="found" role="status"></p>
    </header>
    <main id="routes"><p>Reading /openapi.json …</p></main>
  </body>
</html>
`,
  },
  '/docs/page.css': {
    type: 'text/css; charset=utf-8',
    content: `:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
  background: light-dark(#fff, #16191c); color: light-dark(#1b1b1b, #eee) }
a { color: light-dark(#0b5c8a, #82c0ee) }
body { max-width: 60rem; margin: 0 auto; padding: 1rem }
h2 { margin-top: 2.5rem; text-transform: capitalize }
h3 { margin: 1rem 0 .25rem; font-size: 1rem }
details { border-top: 1px solid #8886 }
summary { cursor: pointer; padding: .625rem 0; min-height: 1.5rem }
summary .note { display: block; padding-left: 4.5rem }
details[open] { padding-bottom: 1.5rem }
code, pre, textarea { font: .875rem/1.5 ui-monospace, monospace }
pre { overflow-x: auto; overflow-wrap: normal; max-height: 32rem; padding: .75rem; background: light-dark(#f2f1ee, #22262a); border-radius: .25rem }
input, textarea, select, button { box-sizing: border-box; min-height: 2.75rem; padding: .25rem .625rem; font: inherit }
input:not([type=checkbox]), textarea, select { width: 100% }
input[type=checkbox] { width: 1.25rem; min-height: 1.25rem; vertical-align: middle }
textarea { min-height: 9rem }
label { display: block; margin: .5rem 0 }
.tools { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 0 1rem }
.method { display: inline-block; min-width: 4.5rem; font-weight: 700 }
.note { color: light-dark(#555, #bbb); margin: .25rem 0 }
.optional { font-style: italic }
.deep1 { padding-left: 1rem } .deep2 { padding-left: 2rem } .deep3 { padding-left: 3rem } .deep4 { padding-left: 4rem }
table { border-collapse: collapse; width: 100% }
td, th { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; border-bottom: 1px solid #8883 }
`,
  },
  '/docs/page.js': { type: 'text/javascript; charset=utf-8', content: pageScript() },
}

/** Returns the script of the page. The token exists only in its input field: the script neither stores nor logs it. */
function pageScript(): string {
  return String.raw`'use strict'
const main = document.getElementById('routes')
const search = document.getElementById('search')
const token = document.getElementById('token')
const found = document.getElementById('found')
/** Maximum number of characters of an answer that the page shows. */
const SHOWN_MAX = 200000
/** Time after which an endless answer, such as a stream, is cut off. */
const ANSWER_MS = 10000

function element(name, text, className) {
  const made = document.createElement(name)
  if (text !== undefined) made.textContent = text
  if (className !== undefined) made.className = className
  return made
}

function block(title, text) {
  const part = document.createDocumentFragment()
  const shown = element('pre', text)
  shown.tabIndex = 0
  shown.setAttribute('role', 'region')
  shown.setAttribute('aria-label', title)
  part.append(element('h3', title), shown)
  return part
}

/** Returns the type of a schema in words, such as "text or null". */
function typeOf(schema) {
  if (schema.enum) return schema.enum.join(' | ')
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(' or ')
  if (schema.type === 'array') return 'list of ' + typeOf(schema.items || {})
  const words = { string: 'text', integer: 'whole number', boolean: 'true or false' }
  return words[schema.type] || schema.type || 'any value'
}

function limitsOf({ minLength, maxLength, minimum, maximum, minItems, maxItems }) {
  const range = (least, most, unit) => {
    if (least === undefined && most === undefined) return ''
    return (least ?? 0) + (most === undefined ? ' or more' : ' to ' + most) + unit
  }
  const all = [range(minLength, maxLength, ' characters'), range(minimum, maximum, ''), range(minItems, maxItems, ' items')]
  return all.filter(Boolean).join(', ')
}

/** Returns the first object schema inside a list or an alternative with null; undefined if there is none. */
function objectIn(schema) {
  if (schema.properties) return schema
  const inner = [schema.items, ...(schema.anyOf || [])].filter(Boolean).map(objectIn).filter(Boolean)
  return inner[0]
}

function row(name, schema, isRequired, depth, place) {
  const line = element('tr')
  const cell = element('td', undefined, 'deep' + Math.min(depth, 4))
  cell.append(element('code', name))
  const facts = element('td')
  facts.append(element('span', isRequired ? 'required' : 'optional', isRequired ? 'required' : 'optional'))
  const rest = [place, typeOf(schema), limitsOf(schema), schema.description].filter(Boolean).join(', ')
  facts.append(', ' + rest)
  line.append(cell, facts)
  return line
}

function fieldRows(schema, depth) {
  const object = objectIn(schema)
  if (object === undefined) return []
  const required = new Set(object.required || [])
  return Object.entries(object.properties).flatMap(([name, one]) => [
    row(name, one, required.has(name), depth),
    ...fieldRows(one, depth + 1),
  ])
}

function table(title, rows) {
  const part = document.createDocumentFragment()
  if (rows.length === 0) return part
  const made = element('table')
  made.setAttribute('aria-label', title)
  made.append(...rows)
  part.append(element('h3', title), made)
  return part
}

/** Fills an operation when it is first opened. Filling all at once would create tens of thousands of elements. */
function describe(box, path, method, one) {
  box.append(element('p', 'Scope: ' + scopeOf(one), 'note'))
  const rows = one.parameters.map(({ name, in: place, required, schema }) => row(name, schema, required, 0, 'in the ' + place))
  box.append(table('Parameters', rows))
  for (const [type, body] of Object.entries(one.requestBody ? one.requestBody.content : {})) {
    box.append(table('Fields of the request', fieldRows(body.schema, 0)))
    if (type === 'application/json') box.append(block('Request', JSON.stringify(body.example, null, 2)))
    else box.append(block('Request: ' + type, body.example || 'a file'))
  }
  for (const [status, answer] of Object.entries(one.responses)) {
    const content = answer.content['application/json']
    if (content === undefined) {
      box.append(element('p', status + ' ' + answer.description, 'note'))
      continue
    }
    box.append(table('Fields of the answer ' + status, fieldRows(content.schema, 0)))
    const title = status + ' ' + answer.description
    if (content.example === undefined) box.append(element('p', title, 'note'))
    else box.append(block(title, JSON.stringify(content.example, null, 2)))
  }
  box.append(tryForm(path, method, one))
}

function scopeOf(one) {
  if (one.security.length === 0) return 'none'
  // Sessions are not listed, because they need the same scopes as tokens.
  return one.security.flatMap(({ bearer = [] }) => bearer).join(' or ')
}

function field(text, control) {
  const label = element('label', text)
  label.append(control)
  return label
}

/** Returns the form that sends a request of this operation with the visitor's token. */
function tryForm(path, method, one) {
  const form = element('form')
  form.setAttribute('aria-label', 'Try ' + method.toUpperCase() + ' ' + path)
  form.append(element('h3', 'Try it'))
  const inputs = one.parameters.map((parameter) => {
    const control = element('input')
    control.autocomplete = 'off'
    control.spellcheck = false
    control.required = parameter.required
    if (parameter.example !== undefined) control.placeholder = 'such as ' + parameter.example
    form.append(field(parameter.name + (parameter.required ? '' : ' (optional)'), control))
    return { parameter, control }
  })
  const types = one.requestBody ? Object.entries(one.requestBody.content) : []
  const body = element('textarea')
  const type = element('select')
  if (types.length > 0) {
    for (const [name] of types) type.append(element('option', name))
    if (types.length > 1) form.append(field('Media type', type))
    const example = types.map(([, content]) => content.example).find((value) => value !== undefined)
    body.value = typeof example === 'string' ? example : JSON.stringify(example, null, 2)
    body.spellcheck = false
    form.append(field('Body', body))
  }
  if (method !== 'get') {
    const consent = element('input')
    consent.type = 'checkbox'
    consent.required = true
    form.append(field('This request changes data of this server. ', consent))
  }
  const submit = element('button', 'Send')
  const answer = element('div')
  answer.setAttribute('role', 'status')
  form.append(submit, answer)
  form.addEventListener('submit', (event) => {
    event.preventDefault()
    submit.disabled = true
    const request = { method: method.toUpperCase(), path, inputs, hasToken: one.security.length > 0 }
    if (types.length > 0) Object.assign(request, { type: type.value, body: body.value })
    answer.replaceChildren(element('p', 'Sending …'))
    send(request)
      .then(({ head, text }) => answer.replaceChildren(block(head, text)))
      .catch((error) => answer.replaceChildren(element('p', 'Not sent, or no answer: ' + error.message)))
      .finally(() => (submit.disabled = false))
  })
  return form
}

async function send({ method, path, inputs, hasToken, type, body }) {
  const given = inputs.filter(({ control }) => control.value !== '')
  const valuesIn = (place) => given.filter(({ parameter }) => parameter.in === place).map(({ parameter, control }) => [parameter.name, control.value])
  let address = '.' + path
  for (const [name, value] of valuesIn('path')) address = address.replace('{' + name + '}', () => encodeURIComponent(value))
  const query = new URLSearchParams(valuesIn('query')).toString()
  const headers = new Headers(valuesIn('header'))
  if (hasToken && token.value !== '') headers.set('authorization', 'Bearer ' + token.value.trim())
  if (type !== undefined) headers.set('content-type', type)
  const response = await fetch(query === '' ? address : address + '?' + query, {
    method, headers, body, cache: 'no-store', credentials: 'omit', redirect: 'error',
  })
  const text = await readText(response)
  return { head: response.status + ' ' + response.statusText + ', request ' + response.headers.get('x-request-id'), text }
}

/** Returns the beginning of an answer, cut off after ANSWER_MS milliseconds or SHOWN_MAX characters. */
async function readText(response) {
  if (response.body === null) return ''
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  let isCut = false
  const cut = () => {
    isCut = true
    reader.cancel().catch(() => {})
  }
  const timeout = setTimeout(cut, ANSWER_MS)
  for (let done = false; !done; ) {
    const part = await reader.read()
    done = part.done
    text += part.value ?? ''
    if (text.length > SHOWN_MAX && !isCut) cut()
  }
  clearTimeout(timeout)
  return isCut ? text.slice(0, SHOWN_MAX) + '\n… cut off here' : pretty(text)
}

/** Indents JSON. Parsing keeps all digits, because the API sends numbers that may exceed 2^53 as text. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

function operation(path, method, one) {
  const box = element('details')
  const head = element('summary')
  head.append(element('span', method.toUpperCase(), 'method'), element('code', path), element('span', one.summary, 'note'))
  box.append(head)
  box.addEventListener('toggle', () => describe(box, path, method, one), { once: true })
  const words = [method, path, one.summary, one.operationId, scopeOf(one), ...one.tags].join(' ').toLowerCase()
  return { box, words }
}

/** Hides operations that do not contain every word of the search. */
function filter(sections) {
  const wanted = search.value.toLowerCase().split(/\s+/)
  let shown = 0
  let all = 0
  for (const { section, operations } of sections) {
    for (const { box, words } of operations) {
      box.hidden = !wanted.every((word) => words.includes(word))
      all += 1
      if (!box.hidden) shown += 1
    }
    section.hidden = operations.every(({ box }) => box.hidden)
  }
  found.textContent = shown + ' of ' + all + ' operations'
}

function show({ tags, paths }) {
  main.replaceChildren()
  const sections = tags.map(({ name, description: rules }) => {
    const section = element('section')
    section.append(element('h2', name))
    if (rules !== undefined) section.append(element('p', rules))
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods)
        .filter(([, one]) => one.tags.includes(name))
        .map(([method, one]) => operation(path, method, one)),
    )
    section.append(...operations.map(({ box }) => box))
    main.append(section)
    return { section, operations }
  })
  search.addEventListener('input', () => filter(sections))
  filter(sections)
}

fetch('openapi.json')
  .then((response) => response.json())
  .then(show)
  .catch((error) => main.replaceChildren(element('p', '/openapi.json could not be read: ' + error.message)))
`
}
