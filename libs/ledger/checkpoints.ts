import { createHash, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'
import { AppError } from '../core/index.js'
import type { BlockHead } from './blocks.js'

/**
 * Checkpoints: the head of a block, signed, on a line of a file that whoever rewrites the database cannot rewrite too. Each
 * line carries the hash of the line before, so that none can be taken out of the middle. The key is Ed25519 and is never in
 * the database.
 */
export interface Checkpoint {
  /** Counted from 1, as an editor does. */
  readonly line: number
  readonly block: string
  readonly blockHash: string
}

export class CheckpointError extends AppError {
  constructor(code: 'CHECKPOINTS_BROKEN' | 'CHECKPOINT_REFUSED' | 'KEY_UNUSABLE', message: string, remedy: string) {
    super(code, message, { remedy })
  }
}

/** The words of a line, in the order in which they are written and signed. */
interface Statement {
  readonly version: 1
  readonly block: string
  readonly blockHash: string
  readonly sealedAt: string
  /** SHA-256 of the line before. */
  readonly previous: string | null
  /** SHA-256 of the public key. */
  readonly key: string
}

/** @param lines all lines of the file so far */
export function signCheckpoint(block: BlockHead, lines: readonly string[], privateKey: KeyObject): string {
  const last = lines.at(-1)
  const statement: Statement = {
    version: 1,
    block: String(block.no),
    blockHash: block.hash,
    sealedAt: block.sealedAt,
    previous: last === undefined ? null : hashOfLine(last),
    key: fingerprintOf(createPublicKey(privateKey)),
  }
  const signature = sign(null, signedBytes(statement), privateKey).toString('base64')
  return JSON.stringify({ ...statement, signature })
}

/** Every line in turn: well-formed to the byte, after the line before it, of a later block, and signed with this key. */
export function readCheckpoints(lines: readonly string[], publicKey: KeyObject): Checkpoint[] {
  const key = fingerprintOf(publicKey)
  return lines.map((text, index) => {
    const line = index + 1
    const { signature, ...statement } = parseLine(text, line)
    const before = lines[index - 1]
    if (statement.previous !== (before === undefined ? null : hashOfLine(before))) {
      throw broken(line, 'it does not follow the line before it: a line is missing, or was put in')
    }
    if (statement.key !== key) throw broken(line, 'it was signed with another key')
    const bytes = Buffer.from(signature, 'base64')
    // Base64 has several spellings of the same bytes; only one of them is what we wrote.
    if (bytes.toString('base64') !== signature || !verify(null, signedBytes(statement), publicKey, bytes)) {
      throw broken(line, 'its signature does not fit')
    }
    return { line, block: statement.block, blockHash: statement.blockHash }
  })
}

export function fingerprintOf(publicKey: KeyObject): string {
  return createHash('sha256')
    .update(publicKey.export({ type: 'spki', format: 'der' }))
    .digest('hex')
}

function parseLine(text: string, line: number): Statement & { readonly signature: string } {
  const match = LINE.exec(text)
  if (match === null) throw broken(line, 'it is not a checkpoint')
  const [, block = '', blockHash = '', sealedAt = '', previous = '', key = '', signature = ''] = match
  return {
    version: 1,
    block,
    blockHash,
    sealedAt,
    previous: previous === 'null' ? null : previous.slice(1, -1),
    key,
    signature,
  }
}

/** As JSON.stringify writes it and in no other way: a line that says the same in other bytes is not the line we wrote. */
const LINE =
  /^\{"version":1,"block":"(\d{1,19})","blockHash":"([0-9a-f]{64})","sealedAt":"(\d{1,19})","previous":(null|"[0-9a-f]{64}"),"key":"([0-9a-f]{64})","signature":"([A-Za-z0-9+/]{86}==)"\}$/

/** Each word as its length in bytes, a colon, the bytes and a comma; a null has no length. */
function signedBytes({ version, block, blockHash, sealedAt, previous, key }: Statement): Buffer {
  const words = ['symphony checkpoint', String(version), block, blockHash, sealedAt, previous, key]
  return Buffer.from(words.map((word) => (word === null ? ':,' : `${word.length}:${word},`)).join(''))
}

function hashOfLine(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

function broken(line: number, why: string): CheckpointError {
  return new CheckpointError(
    'CHECKPOINTS_BROKEN',
    `line ${line} of the checkpoints: ${why}`,
    'Compare the file with its copies, and find out who wrote to it.',
  )
}
