import { parseAst } from 'vite'

export interface Instrumented {
  readonly code: string
  /** Names of the points in `code`, in file order. */
  readonly points: readonly string[]
}

/**
 * Returns a module in which the process can be killed before and after every `await`. A point is named after its file
 * and function: `outbox/OutboxRelayer.js #claim 2` is the second await of `#claim`. Points are generated from the code,
 * so none is missing.
 */
export function instrument(source: string, file: string): Instrumented {
  const awaits = findAwaits(parseAst(source), [])
  const counts = new Map<string, number>()
  const names = new Map<Await, string>()
  for (const found of awaits.toSorted((a, b) => a.start - b.start)) {
    const count = (counts.get(found.inside) ?? 0) + 1
    counts.set(found.inside, count)
    names.set(found, `${file} ${found.inside} ${count}`)
  }
  const render = (start: number, end: number, outer?: Await): string => {
    let text = ''
    let place = start
    const within = awaits.filter((one) => one !== outer && one.start >= start && one.end <= end)
    const outermost = within.filter((one) => !within.some((other) => other !== one && contains(other, one)))
    for (const one of outermost.toSorted((a, b) => a.start - b.start)) {
      const name = JSON.stringify(names.get(one))
      const awaited = render(one.argument.start, one.argument.end, one)
      text += `${source.slice(place, one.start)}failpoint.after(${name}, await (failpoint.before(${name}), ${awaited}))`
      place = one.end
    }
    return text + source.slice(place, end)
  }
  return { code: render(0, source.length), points: [...names.values()] }
}

interface Span {
  readonly start: number
  readonly end: number
}

interface Await extends Span {
  readonly argument: Span
  /** Name of the function that contains the await. */
  readonly inside: string
}

function contains(outer: Span, inner: Span): boolean {
  return outer.start <= inner.start && inner.end <= outer.end
}

interface SyntaxNode extends Span {
  readonly type: string
  readonly [property: string]: unknown
}

function findAwaits(node: unknown, path: readonly string[]): Await[] {
  if (Array.isArray(node)) return node.flatMap((child) => findAwaits(child, path))
  if (!isSyntaxNode(node)) return []
  if (node.type === 'ForOfStatement' && node['await'] === true)
    throw new Error('instrument.ts does not support for await; add it')
  const name = nameIn(node)
  const inside = name === undefined ? path : [...path, name]
  const children = Object.values(node).flatMap((child) => findAwaits(child, inside))
  const { argument } = node
  if (node.type !== 'AwaitExpression' || !isSyntaxNode(argument)) return children
  const { start, end } = node
  return [{ start, end, argument, inside: path.join('.') || 'the module' }, ...children]
}

function isSyntaxNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}

/** Returns the name of a function: its own, its method's or its variable's. */
function nameIn(node: SyntaxNode): string | undefined {
  const named = {
    MethodDefinition: 'key',
    PropertyDefinition: 'key',
    FunctionDeclaration: 'id',
    VariableDeclarator: 'id',
  }
  const property = Object.entries(named).find(([type]) => type === node.type)?.[1]
  const identifier = property === undefined ? undefined : node[property]
  if (!isSyntaxNode(identifier) || typeof identifier['name'] !== 'string') return undefined
  return identifier.type === 'PrivateIdentifier' ? `#${identifier['name']}` : identifier['name']
}
