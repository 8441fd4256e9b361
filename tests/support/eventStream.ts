export interface StreamEvent {
  readonly event: string
  readonly data: string
}

/** A client that records the events of a stream. */
export class EventStreamClient {
  readonly response: Response
  readonly events: StreamEvent[] = []
  /** Number of lines that begin with a colon. */
  comments = 0
  /** Resolves when the stream ends: `ended` by the server, or `cut`. */
  readonly ended: Promise<'ended' | 'cut'>
  readonly #abort: AbortController

  constructor(response: Response, abort: AbortController) {
    this.response = response
    this.#abort = abort
    this.ended = this.#read()
  }

  static async open(url: string, token: string): Promise<EventStreamClient> {
    const abort = new AbortController()
    const response = await fetch(url, { headers: { authorization: `Bearer ${token}` }, signal: abort.signal })
    return new EventStreamClient(response, abort)
  }

  /** Returns the data of the events with this name. */
  dataOf(name: string): string[] {
    return this.events.flatMap(({ event, data }) => (event === name ? [data] : []))
  }

  leave(): void {
    this.#abort.abort()
  }

  async #read(): Promise<'ended' | 'cut'> {
    const decoder = new TextDecoder()
    let text = ''
    try {
      for await (const chunk of this.response.body ?? []) {
        text += decoder.decode(chunk, { stream: true })
        const blocks = text.split('\n\n')
        text = blocks.pop() ?? ''
        for (const block of blocks) this.#take(block)
      }
      return 'ended'
    } catch {
      return 'cut'
    }
  }

  #take(block: string): void {
    const field = (name: string) =>
      block
        .split('\n')
        .find((line) => line.startsWith(`${name}: `))
        ?.slice(name.length + 2)
    const [event, data] = [field('event'), field('data')]
    if (event !== undefined && data !== undefined) this.events.push({ event, data })
    else if (block.startsWith(':')) this.comments += 1
  }
}
