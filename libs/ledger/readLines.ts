import { createReadStream } from 'node:fs'

/**
 * The lines of a file, each up to a line feed and nothing else: node:readline also ends a line at U+2028, which JSON leaves as
 * it is inside a text.
 */
export async function* readLines(path: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(path, { encoding: 'utf8' })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}
