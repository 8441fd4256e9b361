import { posix } from 'node:path'
import type { Guardrail } from './guardrail.js'
import { isTypeScript, type Repository } from './repository.js'
import { importsOf } from './typescriptImports.js'

/** A cycle makes the order in which modules run an accident. Types are erased, so they make none. */
export const importsHaveNoCycle: Guardrail = {
  name: 'files of libs/ import each other without a cycle',
  check: (repository) => {
    const graph = importGraph(repository)
    const reported = new Set<string>()
    return [...graph.keys()].flatMap((start) => {
      const cycle = reported.has(start) ? undefined : findCycle(graph, start)
      if (cycle === undefined) return []
      for (const { from } of cycle) reported.add(from)
      const route = [...cycle.map(({ from }) => from), start].join(' → ')
      return [{ file: start, line: cycle[0]?.line ?? 1, message: `imports itself: ${route}` }]
    })
  },
}

interface Edge {
  readonly from: string
  readonly to: string
  readonly line: number
}

function importGraph(repository: Repository): ReadonlyMap<string, readonly Edge[]> {
  return new Map(
    repository
      .filter((file) => isTypeScript(file) && file.path.startsWith('libs/'))
      .map((file) => [
        file.path,
        importsOf(file)
          .filter(({ specifier, typeOnly }) => specifier.startsWith('.') && !typeOnly)
          .map(({ specifier, line }) => ({
            from: file.path,
            to: posix.join(posix.dirname(file.path), specifier).replace(/\.js(x?)$/, '.ts$1'),
            line,
          })),
      ]),
  )
}

/** The way from a file back to itself, if there is one. */
function findCycle(graph: ReadonlyMap<string, readonly Edge[]>, start: string): readonly Edge[] | undefined {
  const visited = new Set<string>()
  const routes: (readonly Edge[])[] = (graph.get(start) ?? []).map((edge) => [edge])
  for (let route = routes.pop(); route !== undefined; route = routes.pop()) {
    const reached = route.at(-1)?.to ?? ''
    if (reached === start) return route
    if (visited.has(reached)) continue
    visited.add(reached)
    for (const edge of graph.get(reached) ?? []) routes.push([...route, edge])
  }
  return undefined
}
