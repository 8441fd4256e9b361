/** What an array holds: items, NULLs, and for more dimensions arrays of the same. */
export type ArrayItems<T> = (T | null | ArrayItems<T>)[]

/** Reads PostgreSQL's text form of an array: `{1,NULL,"a,b"}`. Lower bounds other than one (`[0:1]={…}`) are skipped. */
export function parseArray<T>(text: string, parseItem: (text: string) => T): ArrayItems<T> {
  const outermost: ArrayItems<T> = []
  const open: ArrayItems<T>[] = [outermost]
  for (const [token, quoted] of text.slice(text.indexOf('{')).matchAll(TOKEN)) {
    if (token === '{') {
      const inner: ArrayItems<T> = []
      open.at(-1)?.push(inner)
      open.push(inner)
    } else if (token === '}') {
      open.pop()
    } else if (quoted !== undefined) {
      open.at(-1)?.push(parseItem(quoted.replaceAll(/\\(.)/gs, '$1')))
    } else {
      open.at(-1)?.push(token === 'NULL' ? null : parseItem(token))
    }
  }
  const [items] = outermost
  return Array.isArray(items) ? items : []
}

/** A brace, a quoted item (without its quotes in the group), or a bare item. */
const TOKEN = /[{}]|"((?:[^"\\]|\\.)*)"|[^{},"]+/gs
