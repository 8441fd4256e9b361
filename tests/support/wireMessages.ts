export type Direction = 'toServer' | 'toClient'

/** Position of a byte: its message, and its offset in the message. */
export interface WirePlace {
  readonly message: string
  readonly byte: number
}

/**
 * Follows one direction of PostgreSQL's protocol 3 and knows the message of every byte. A message is a letter, a length
 * and a body. Only the startup message of the client and the one-byte answer to an encryption request have no letter.
 */
export class WireMessages {
  readonly #names: Readonly<Record<string, string>>
  readonly #hasLetter: () => boolean
  readonly #onEnd: (message: string, body: Buffer) => void
  #bytes: number[] = []
  #length = HEADER_UNKNOWN

  constructor(direction: Direction, session: WireSession) {
    this.#names = direction === 'toServer' ? CLIENT_MESSAGES : SERVER_MESSAGES
    this.#hasLetter = () => direction === 'toClient' || session.isStarted
    this.#onEnd = (message, body) => {
      if (direction === 'toServer') session.onMessage(message, body)
    }
  }

  /** Position of the next byte. */
  get place(): WirePlace {
    return { message: this.#name(), byte: this.#bytes.length }
  }

  read(chunk: Buffer): void {
    for (const byte of chunk) this.#readByte(byte)
  }

  #readByte(byte: number): void {
    this.#bytes.push(byte)
    const lengthAt = this.#hasLetter() ? 1 : 0
    if (this.#bytes.length === lengthAt + 4) {
      this.#length = lengthAt + Buffer.from(this.#bytes.slice(lengthAt)).readUInt32BE()
    }
    if (this.#bytes.length < this.#length) return
    const name = this.#name()
    const body = Buffer.from(this.#bytes.slice(lengthAt + 4))
    this.#bytes = []
    this.#length = HEADER_UNKNOWN
    this.#onEnd(name, body)
  }

  #name(): string {
    if (!this.#hasLetter()) return 'StartupMessage'
    const [letter] = this.#bytes
    if (letter === undefined) return 'between messages'
    const text = String.fromCharCode(letter)
    return this.#names[text] ?? text
  }
}

/** State that both directions share: whether the startup message was sent. */
export class WireSession {
  isStarted = false

  onMessage(message: string, body: Buffer): void {
    if (message !== 'StartupMessage') return
    // A request for encryption is answered by one byte, and another startup message follows.
    this.isStarted = body.readUInt32BE() === PROTOCOL_3
    if (!this.isStarted) throw new Error('the wire proxy reads plain connections only: turn TLS off')
  }
}

const HEADER_UNKNOWN = Number.POSITIVE_INFINITY
const PROTOCOL_3 = 196_608

const CLIENT_MESSAGES: Readonly<Record<string, string>> = {
  B: 'Bind',
  C: 'Close',
  D: 'Describe',
  E: 'Execute',
  H: 'Flush',
  P: 'Parse',
  Q: 'Query',
  S: 'Sync',
  X: 'Terminate',
  p: 'PasswordMessage',
}

const SERVER_MESSAGES: Readonly<Record<string, string>> = {
  '1': 'ParseComplete',
  '2': 'BindComplete',
  '3': 'CloseComplete',
  A: 'NotificationResponse',
  C: 'CommandComplete',
  D: 'DataRow',
  E: 'ErrorResponse',
  I: 'EmptyQueryResponse',
  K: 'BackendKeyData',
  N: 'NoticeResponse',
  R: 'Authentication',
  S: 'ParameterStatus',
  T: 'RowDescription',
  Z: 'ReadyForQuery',
  n: 'NoData',
  s: 'PortalSuspended',
  t: 'ParameterDescription',
}
