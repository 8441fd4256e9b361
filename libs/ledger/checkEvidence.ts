import { createPublicKey, verify, type KeyObject } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { blockHash as hashOfHead } from './blocks.js'
import { readCheckpoints, readPublicKey } from './checkpoints.js'
import { EVIDENCE_MANIFEST, EVIDENCE_SIGNATURE, EvidenceError, manifestOf, sha256, stableJson } from './evidence.js'
import { describeRuns, findRunProblem, parseRuns } from './evidenceRuns.js'
import { readHeadLine, type Head } from './exportLines.js'

export interface EvidenceCheck {
  readonly files: number
  /** SHA-256 of the manifest, as printed when the bundle was written. */
  readonly sha256: string
  /**
   * Whether the given key signed the manifest. A key in the bundle proves nothing, because anyone could have added it.
   */
  readonly signed: boolean
  readonly blocks: number
  readonly checkpoints: number
  /** Reconciliations whose findings match the digest in their event. */
  readonly reconciliations: number
}

/**
 * Checks that every byte of a bundle is unchanged and that its parts agree. Each block follows the previous one, signed
 * checkpoints name existing blocks, functions match their hashes, and findings match the sealed events of their runs.
 * Needs no database.
 */
export async function checkEvidence({
  folder,
  publicKey,
}: {
  readonly folder: string
  /** File with the public key of the manifest's signer. Without it, the author is unverified. @default none */
  readonly publicKey?: string
}): Promise<EvidenceCheck> {
  const key = publicKey === undefined ? undefined : await readPublicKey(publicKey)
  return checkBundle(await readBundle(folder), key)
}

export function checkBundle(bundle: ReadonlyMap<string, Buffer>, publicKey?: KeyObject): EvidenceCheck {
  const files = textsOf(bundle)
  const manifest = take(files, EVIDENCE_MANIFEST)
  const signature = files.get(EVIDENCE_SIGNATURE)
  files.delete(EVIDENCE_SIGNATURE)
  requireManifest(files, manifest)
  requireSignature(manifest, signature, publicKey ?? keyIn(files, 'signing-key.pem'))
  const heads = requireBlocks(files.get('blocks.ndjson') ?? '')
  const checkpoints = requireCheckpoints(files, heads)
  requireVerified(files.get('verification.json') ?? '')
  requireFunctions(files.get('functions.json') ?? '')
  const reconciliations = requireRuns(files, heads)
  return {
    files: files.size + 1,
    sha256: sha256(manifest),
    signed: signature !== undefined && publicKey !== undefined,
    blocks: heads.length,
    checkpoints,
    reconciliations,
  }
}

async function readBundle(folder: string): Promise<ReadonlyMap<string, Buffer>> {
  const files = new Map<string, Buffer>()
  let entries
  try {
    entries = await readdir(folder, { withFileTypes: true })
  } catch {
    throw broken(`${folder} is not a folder that can be read`)
  }
  for (const entry of entries) {
    if (!entry.isFile()) throw broken(`${entry.name} is not a file`)
    files.set(entry.name, await readFile(join(folder, entry.name)))
  }
  return files
}

/** Decodes the files. Refuses bytes that are not UTF-8, because decoding would silently replace them. */
function textsOf(bundle: ReadonlyMap<string, Buffer>): Map<string, string> {
  return new Map(
    [...bundle].map(([name, bytes]) => {
      const text = bytes.toString('utf8')
      if (!Buffer.from(text).equals(bytes)) throw broken(`${name} is not what was written`)
      return [name, text]
    }),
  )
}

function take(files: Map<string, string>, name: string): string {
  const text = files.get(name)
  if (text === undefined) throw broken(`${name} is missing`)
  files.delete(name)
  return text
}

function requireManifest(files: ReadonlyMap<string, string>, manifest: string): void {
  const expected = manifestOf(files).split('\n')
  const given = manifest.split('\n')
  if (expected.join('\n') === given.join('\n')) return
  const differing = [
    ...expected.filter((line) => !given.includes(line)),
    ...given.filter((line) => !expected.includes(line)),
  ]
  const names = new Set(differing.map((line) => line.slice(66)).filter((name) => name !== ''))
  throw broken(`the manifest and the files differ in: ${[...names].toSorted().join(', ') || EVIDENCE_MANIFEST}`)
}

function requireSignature(manifest: string, signature: string | undefined, key: KeyObject | undefined): void {
  if (signature === undefined) {
    if (key !== undefined) throw broken('a key is given, but the bundle is not signed')
    return
  }
  const bytes = Buffer.from(signature, 'base64')
  const isAsWritten = `${bytes.toString('base64')}\n` === signature
  if (!isAsWritten || key === undefined || !verify(null, Buffer.from(manifest), key, bytes)) {
    throw broken('the signature does not match the manifest and the key')
  }
}

function keyIn(files: ReadonlyMap<string, string>, name: string): KeyObject | undefined {
  const pem = files.get(name)
  return pem === undefined ? undefined : parsed(name, () => ed25519In(pem))
}

function ed25519In(pem: string): KeyObject | undefined {
  const key = createPublicKey(pem)
  return key.asymmetricKeyType === 'ed25519' ? key : undefined
}

function requireBlocks(text: string): Head[] {
  let previous: Head | undefined
  return linesOf(text).map((line, index) => {
    const head = readHeadLine(line)
    if (head === undefined) throw broken(`line ${index + 1} of blocks.ndjson is not a block`)
    const follows = head.no === (previous?.no ?? 0n) + 1n && head.prevHash === (previous?.hash ?? null)
    if (!follows || hashOfHead(head) !== head.hash) {
      throw broken(`block ${head.no} does not follow the block before it, or does not match its hash`)
    }
    previous = head
    return head
  })
}

/** Verifies the checkpoints with the key in the bundle. A signed manifest covers that key. */
function requireCheckpoints(files: ReadonlyMap<string, string>, heads: readonly Head[]): number {
  const text = files.get('checkpoints.ndjson')
  const key = keyIn(files, 'checkpoint-key.pem')
  if (text === undefined || key === undefined) return 0
  const byNumber = new Map(heads.map((head) => [String(head.no), head.hash]))
  const checkpoints = readCheckpoints(linesOf(text), key)
  for (const { block, blockHash, line } of checkpoints) {
    if (byNumber.get(block) !== blockHash)
      throw broken(`line ${line} of the checkpoints names a block that is not there`)
  }
  return checkpoints.length
}

function requireRuns(files: ReadonlyMap<string, string>, heads: readonly Head[]): number {
  const text = files.get('reconciliations.ndjson')
  // Bundles of earlier releases have no such file.
  if (text === undefined) return 0
  const runs = parsed('reconciliations.ndjson', () => parseRuns(text))
  const problem = findRunProblem(runs, new Map(heads.map(({ no, root }) => [String(no), root])))
  if (problem !== undefined) throw broken(problem)
  const described = describeRuns(runs)
  if (stableJson(described) !== files.get('reconciliations.json')) {
    throw broken('reconciliations.json does not say what reconciliations.ndjson contains')
  }
  return described.length
}

function requireVerified(text: string): void {
  const report = parsed<unknown>('verification.json', () => JSON.parse(text))
  if (typeof report !== 'object' || report === null || !('ok' in report) || report.ok !== true) {
    throw broken('verification.json does not report a sound ledger')
  }
}

function requireFunctions(text: string): void {
  const functions = parsed<unknown>('functions.json', () => JSON.parse(text))
  for (const [name, one] of Object.entries(typeof functions === 'object' && functions !== null ? functions : {})) {
    const { definition, sha256: sum }: { definition?: unknown; sha256?: unknown } =
      typeof one === 'object' ? { ...one } : {}
    if (sha256(stableJson(definition)) !== sum) throw broken(`the function ${name} does not match its hash`)
  }
}

/** Returns the parsed content of a file. Refuses the bundle if the parser throws or returns undefined. */
function parsed<T>(name: string, parse: () => T | undefined): T {
  let content
  try {
    content = parse()
  } catch {
    // Throws below without the parser's message, which may contain parts of the file.
  }
  if (content === undefined) throw broken(`${name} is not what was written`)
  return content
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

function broken(why: string): EvidenceError {
  return new EvidenceError(
    'EVIDENCE_BROKEN',
    why,
    'This is not the bundle that was written. Compare it with its copies.',
  )
}
