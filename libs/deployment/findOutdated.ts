import type { Catalog, Properties } from './catalog.js'

export interface Outdated {
  readonly functions: readonly string[]
  readonly views: readonly string[]
}

/**
 * What CREATE OR REPLACE cannot turn into what the release has: a function that returns something else or names its
 * parameters differently, a view that loses a column. And what the release does not have any more: left behind, a
 * function would be a second way in, and compete for the calls of its successor. All else is replaced in place, which
 * no running worker notices.
 */
export function findOutdated(live: Catalog, release: Catalog): Outdated {
  const views = objectsOf(live, 'relations').filter(([, { type }]) => type === 'view')
  return {
    functions: objectsOf(live, 'functions')
      .filter(([name, found]) => isOutdatedFunction(found, release.get('functions')?.get(name)))
      .map(([name]) => name),
    views: views.map(([name]) => name).filter((name) => isOutdatedView(name, live, release)),
  }
}

function isOutdatedFunction(found: Properties, wanted: Properties | undefined): boolean {
  return ['type', 'arguments', 'result'].some((property) => found[property] !== wanted?.[property])
}

function isOutdatedView(view: string, live: Catalog, release: Catalog): boolean {
  if (release.get('relations')?.get(view)?.['type'] !== 'view') return true
  return objectsOf(live, 'columns')
    .filter(([name]) => name.startsWith(`${view}.`))
    .some(([name, { type }]) => release.get('columns')?.get(name)?.['type'] !== type)
}

function objectsOf(catalog: Catalog, kind: string): readonly (readonly [string, Properties])[] {
  return [...(catalog.get(kind) ?? [])]
}
