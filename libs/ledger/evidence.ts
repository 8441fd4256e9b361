import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SymphonyError, canonicalJson } from '../core/index.js'
import type { Diagnosis } from '../deployment/index.js'
import type { AuditReport } from './auditor.js'
import { createFile } from './durableFile.js'
import { EVIDENCE_FILES, readmeOf } from './evidenceReadme.js'
import { describeRuns, writeRuns, type BundledRuns } from './evidenceRuns.js'
import { intoNewFolder } from './exportLedger.js'
import { writeHead } from './exportLines.js'
import type { LedgerSource } from './LedgerSource.js'

/** Parts of a bundle. */
export interface EvidenceParts {
  /** Deployed objects by kind and name. */
  readonly catalog: ReadonlyMap<string, ReadonlyMap<string, object>>
  readonly deployments: readonly object[]
  readonly settings: object
  /** Current limits, and the events of limits. */
  readonly limits: object
  readonly doctor: Diagnosis
  readonly audit: AuditReport
  readonly runs: BundledRuns
  /** Table of scenarios and their tests, as shipped with this release. */
  readonly conformance: string
  /** Text of the checkpoints that the audit used, and the key that verified them. */
  readonly checkpoints?: { readonly text: string; readonly publicKeyPem: string } | undefined
}

export const EVIDENCE_MANIFEST = 'MANIFEST.sha256'
export const EVIDENCE_SIGNATURE = 'MANIFEST.sha256.sig'

export class EvidenceError extends SymphonyError {
  /** Results of doctor and audit that caused the refusal; undefined for a broken bundle. */
  readonly found: Pick<EvidenceParts, 'doctor' | 'audit'> | undefined

  constructor(
    code: 'EVIDENCE_REFUSED' | 'EVIDENCE_BROKEN',
    message: string,
    remedy: string,
    found?: Pick<EvidenceParts, 'doctor' | 'audit'>,
  ) {
    super(code, message, { remedy })
    this.found = found
  }
}

/**
 * Reads the conformance page of this release. Searches upwards, because compiled code lies deeper in the package than
 * its source.
 */
export async function readConformance(): Promise<string> {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const text = await readFile(join(folder, 'docs', 'conformance.md'), 'utf8').catch(() => undefined)
    if (text !== undefined) return text
    if (folder === dirname(folder)) {
      throw new SymphonyError('CONFORMANCE_MISSING', 'The page docs/conformance.md is missing from this package.', {
        remedy: 'Install the package again.',
      })
    }
  }
}

/**
 * Writes a bundle. The same state of the database gives the same bytes: the bundle contains no creation time, and
 * everything is sorted. Refuses if the schema or the ledger failed a check, so that every existing bundle has passed.
 */
export async function writeEvidence(
  folder: string,
  parts: EvidenceParts,
  source: LedgerSource,
  privateKey?: KeyObject,
): Promise<{ readonly files: number; readonly sha256: string }> {
  requireSound(parts)
  return intoNewFolder(folder, async (unfinished) => {
    const files = new Map([...filesOf(parts), ['blocks.ndjson', await headsOf(source)]])
    if (privateKey !== undefined) files.set('signing-key.pem', publicPem(privateKey))
    files.set('README.md', readmeOf([...files.keys()]))
    for (const [name, content] of files) await createFile(join(unfinished, name), content)
    const manifest = manifestOf(files)
    await createFile(join(unfinished, EVIDENCE_MANIFEST), manifest)
    if (privateKey !== undefined) {
      const signature = sign(null, Buffer.from(manifest), privateKey).toString('base64')
      await createFile(join(unfinished, EVIDENCE_SIGNATURE), `${signature}\n`)
    }
    return { files: files.size + 1, sha256: sha256(manifest) }
  })
}

/** Returns the manifest in the format of `sha256sum`. */
export function manifestOf(files: ReadonlyMap<string, string>): string {
  const names = [...files.keys()].toSorted()
  return names.map((name) => `${sha256(files.get(name) ?? '')}  ${name}\n`).join('')
}

export function sha256(content: string | Buffer): string {
  return createHash('sha256').update(content).digest('hex')
}

function filesOf({ catalog, deployments, settings, limits, doctor, audit, runs, ...parts }: EvidenceParts) {
  const { conformance, checkpoints } = parts
  const files = new Map<string, string>([
    ['deployments.json', stableJson(deployments)],
    ['settings.json', stableJson(settings)],
    ['limits.json', stableJson(limits)],
    ['doctor.json', stableJson(doctor)],
    ['counts.json', stableJson(countsOf(audit))],
    ['verification.json', stableJson(audit)],
    ['reconciliations.json', stableJson(describeRuns(runs))],
    ['reconciliations.ndjson', writeRuns(runs)],
    ['conformance.md', conformance],
    ['functions.json', stableJson(withHashes(catalog.get('functions') ?? new Map()))],
  ])
  for (const [file, kind] of Object.entries(CATALOG_FILES)) files.set(file, stableJson(catalog.get(kind) ?? new Map()))
  files.set('views.json', stableJson(viewsIn(catalog.get('relations') ?? new Map())))
  if (checkpoints !== undefined) {
    files.set('checkpoints.ndjson', checkpoints.text)
    files.set('checkpoint-key.pem', checkpoints.publicKeyPem)
  }
  const unexplained = [...files.keys()].filter((name) => !(name in EVIDENCE_FILES))
  if (unexplained.length > 0) throw new Error(`the README does not explain ${unexplained.join(', ')}`)
  return files
}

const CATALOG_FILES = {
  'columns.json': 'columns',
  'constraints.json': 'constraints',
  'default-privileges.json': 'default_privileges',
  'grants.json': 'grants',
  'indexes.json': 'indexes',
  'roles.json': 'roles',
  'rules.json': 'rules',
  'policies.json': 'policies',
  'tables.json': 'relations',
  'triggers.json': 'triggers',
} as const

/** Adds the SHA-256 of each definition, by which people can compare databases. */
function withHashes(functions: ReadonlyMap<string, object>): Map<string, object> {
  return new Map(
    [...functions].map(([name, definition]) => [name, { definition, sha256: sha256(stableJson(definition)) }]),
  )
}

function viewsIn(relations: ReadonlyMap<string, object>): Map<string, object> {
  return new Map([...relations].filter(([, properties]) => 'type' in properties && properties.type === 'view'))
}

function countsOf({ counts, chain }: AuditReport): object {
  const { identities, attempts, events, blocks, openRows, checkpoints, openBlocks } = chain
  return { ...counts, identities, attempts, events, blocks, openRows, checkpoints, openBlocks }
}

function publicPem(privateKey: KeyObject): string {
  return createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }).toString()
}

async function headsOf(source: LedgerSource): Promise<string> {
  const lines: string[] = []
  for await (const block of source.blocks(0n)) lines.push(`${writeHead(block)}\n`)
  return lines.join('')
}

function requireSound({ doctor, audit }: EvidenceParts): void {
  if (doctor.ok && audit.ok) return
  const broken = audit.invariants.filter(({ ok }) => !ok).map(({ id }) => id)
  throw new EvidenceError(
    'EVIDENCE_REFUSED',
    doctor.ok
      ? `The ledger failed its audit (${broken.join(', ')}), so no evidence was written.`
      : 'The schema is not what was deployed, so no evidence was written.',
    'Run symphony ledger verify and symphony doctor to see the findings.',
    { doctor, audit },
  )
}

/** Returns JSON whose bytes depend only on the value: sorted keys, two spaces per level, a final line feed. */
export function stableJson(value: unknown): string {
  return `${canonicalJson(value, 2)}\n`
}
