export interface ServerEvent {
  readonly type: string
  readonly data: string
  readonly id: string | undefined
}

/**
 * Parses server-sent events from chunks of text. EventSource is not used, because it cannot send the Authorization
 * header, and a token in the address would appear in logs.
 */
export class EventReader {
  #rest = ''
  #type = ''
  #data: string[] = []
  #id: string | undefined

  /** Returns the events that this chunk completes. */
  read(text: string): ServerEvent[] {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/)
    this.#rest = lines.pop() ?? ''
    return lines.flatMap((line) => this.#line(line) ?? [])
  }

  #line(line: string): ServerEvent | undefined {
    if (line === '') return this.#end()
    const colon = line.indexOf(':')
    const field = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (field === 'event') this.#type = value
    else if (field === 'data') this.#data.push(value)
    else if (field === 'id') this.#id = value
    return undefined
  }

  #end(): ServerEvent | undefined {
    const event = { type: this.#type || 'message', data: this.#data.join('\n'), id: this.#id }
    const isEvent = this.#data.length > 0
    this.#type = ''
    this.#data = []
    return isEvent ? event : undefined
  }
}
