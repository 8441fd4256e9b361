import { CamtReader } from './CamtReader.js'
import { EntryCollector } from './EntryCollector.js'
import { statementError } from './statementError.js'
import type { ReadStatementOptions, StatementEntry, StatementSummary } from './types.js'

export async function* readCamt(
  text: AsyncIterable<string>,
  options: ReadStatementOptions,
): AsyncGenerator<readonly StatementEntry[], StatementSummary> {
  // Imports the parser here, because most processes read no statement.
  const { SaxesParser } = await import('saxes')
  const collector = new EntryCollector()
  const reader = new CamtReader(new SaxesParser(), collector, options)
  let isStarted = false
  for await (const chunk of text) {
    isStarted ||= requireMarkup(chunk)
    reader.write(chunk)
    if (collector.isFull) yield collector.take()
  }
  reader.close()
  yield collector.take()
  return collector.summary()
}

/** Refuses a file that does not start with markup. Returns false if the chunk is blank. */
function requireMarkup(chunk: string): boolean {
  const start = chunk.trimStart()
  if (start === '') return false
  if (start.startsWith('<')) return true
  throw statementError(
    `expected XML, got ${describeText(start)}`,
    { line: 1, column: 1 },
    'Give the camt.053 or camt.054 file of the bank, or name its format: csv or ndjson.',
  )
}

function describeText(start: string): string {
  if (start.startsWith('{1:') || start.startsWith(':20:')) return 'an MT940 message'
  return /^[[{]/.test(start) ? 'JSON' : 'other text'
}
