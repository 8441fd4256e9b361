import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign,
  verify,
} from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { SymphonyError } from '../core/index.js'
import type { BlockHead } from './blocks.js'
import { createFile } from './durableFile.js'

/**
 * Checkpoint: the signed head of a block, as one line of a file outside the database. Each line contains the hash of
 * the previous line, so that removing a line is noticed. The Ed25519 key is never in the database.
 */
export interface Checkpoint {
  /** Line number, from 1. */
  readonly line: number
  readonly block: string
  readonly blockHash: string
}

export class CheckpointError extends SymphonyError {
  constructor(code: 'CHECKPOINTS_BROKEN' | 'CHECKPOINT_REFUSED' | 'KEY_UNUSABLE', message: string, remedy: string) {
    super(code, message, { remedy })
  }
}

/** Fields of a line, in the order in which they are written and signed. */
interface Statement {
  readonly version: 1
  readonly block: string
  readonly blockHash: string
  readonly sealedAt: string
  /** SHA-256 of the previous line. */
  readonly previous: string | null
  readonly key: string
}

/** @param lines existing lines of the file */
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

/**
 * Parses all lines. Each line must have the exact bytes of the format, the hash of the previous line, and a valid
 * signature of this key.
 */
export function readCheckpoints(lines: readonly string[], publicKey: KeyObject): Checkpoint[] {
  const key = fingerprintOf(publicKey)
  return lines.map((text, index) => {
    const line = index + 1
    const { signature, ...statement } = parseLine(text, line)
    const before = lines[index - 1]
    if (statement.previous !== (before === undefined ? null : hashOfLine(before))) {
      throw broken(line, 'it lacks the hash of the previous line: a line was removed or inserted')
    }
    if (statement.key !== key) throw broken(line, 'it was signed with another key')
    const bytes = Buffer.from(signature, 'base64')
    // Several base64 texts decode to the same bytes. Accepts only the canonical text.
    if (bytes.toString('base64') !== signature || !verify(null, signedBytes(statement), publicKey, bytes)) {
      throw broken(line, 'its signature is not valid')
    }
    return { line, block: statement.block, blockHash: statement.blockHash }
  })
}

function fingerprintOf(publicKey: KeyObject): string {
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

/** Exact output of JSON.stringify for a line. The same content in other bytes is refused. */
const LINE =
  /^\{"version":1,"block":"(\d{1,19})","blockHash":"([0-9a-f]{64})","sealedAt":"(\d{1,19})","previous":(null|"[0-9a-f]{64}"),"key":"([0-9a-f]{64})","signature":"([A-Za-z0-9+/]{86}==)"\}$/

/** Encodes each word as its length, a colon, the word and a comma; null as a colon and a comma only. */
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
    'Compare the file with its copies, and find out what wrote to it.',
  )
}

/**
 * Creates an Ed25519 key pair in two files. Never overwrites a file, because old checkpoints need their key for
 * verification. Keep the private key where no administrator of the database can read it.
 */
export async function createCheckpointKeys({
  privateKey: privateFile,
  publicKey: publicFile,
}: {
  readonly privateKey: string
  readonly publicKey: string
}): Promise<void> {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519')
  try {
    await createFile(privateFile, privateKey.export({ type: 'pkcs8', format: 'pem' }), 0o600)
    await createFile(publicFile, publicKey.export({ type: 'spki', format: 'pem' }), 0o644)
  } catch (error) {
    throw new SymphonyError('KEYGEN_FAILED', `The keys cannot be written to ${privateFile} and ${publicFile}.`, {
      cause: error,
      remedy: 'Name files that do not exist yet, in a folder where you can write.',
    })
  }
}

/** Reads a private key. Refuses a file that others can read, because they could sign a rewritten ledger. */
export async function readPrivateKey(file: string): Promise<KeyObject> {
  const text = await readKeyFile(file)
  const { mode } = await stat(file)
  if (process.platform !== 'win32' && (mode & 0o077) !== 0) {
    throw unusable(file, 'others can read it', `chmod 600 ${file}`)
  }
  return ed25519(file, () => createPrivateKey(text))
}

export async function readPublicKey(file: string): Promise<KeyObject> {
  const text = await readKeyFile(file)
  // A private key would verify as well, but must stay with the signer.
  if (text.includes('PRIVATE KEY')) throw unusable(file, 'it is a private key', 'Give the public key to verifiers.')
  return ed25519(file, () => createPublicKey(text))
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8')
  } catch {
    throw unusable(file, 'it cannot be read', 'Create one with symphony ledger keygen, or name an existing one.')
  }
}

function ed25519(file: string, parse: () => KeyObject): KeyObject {
  try {
    const key = parse()
    if (key.asymmetricKeyType === 'ed25519') return key
  } catch {
    // Throws below without the library's message, which may contain parts of the key.
  }
  throw unusable(file, 'it is not an Ed25519 key in PEM', 'Create one with symphony ledger keygen.')
}

function unusable(file: string, why: string, remedy: string): CheckpointError {
  return new CheckpointError('KEY_UNUSABLE', `the key ${file}: ${why}`, remedy)
}
