import { readFileSync } from 'node:fs'

/** Reads a Markdown page of the repository without the padding that the formatter adds to cells of a table. */
export function markdownPage(path: string): string {
  const text = readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
  return text.replace(/^\|.*$/gm, (row) => row.replace(/ +\|/g, ' |'))
}
