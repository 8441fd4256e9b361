import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AppError } from '../../core/index.js'
import { describeDeployment, doctor } from '../../deployment/index.js'
import { audit, databaseSource, readPrivateKey, readSettings, writeEvidence } from '../../ledger/index.js'
import type { Cli } from '../Cli.js'
import { printDiagnosis } from '../commands/doctor.js'
import { checkpointsOf, linesIn, requiredFlag, textFlag } from '../ledger/checkpointFiles.js'
import { readLedger, withProgress } from '../ledger/readLedger.js'
import { printReport } from '../ledger/verify.js'
import { urlOfTarget } from '../openTarget.js'
import { resolveSettings, type GivenFlags } from '../resolveSettings.js'
import { TARGET } from '../settings.js'

export async function runEvidence(flags: GivenFlags, cli: Cli): Promise<void> {
  const folder = requiredFlag(flags, 'out', '--out')
  const keyFile = textFlag(flags, 'key')
  const privateKey = keyFile === undefined ? undefined : await readPrivateKey(keyFile)
  const checkpoints = await checkpointsOf(flags)
  const conformance = await readConformance()
  const settings = await resolveSettings(TARGET, flags, cli)
  const target = { url: await urlOfTarget(settings), schema: settings.schema }
  const diagnosis = await doctor({ ...target, full: true })
  const { catalog, history } = await describeDeployment(target)
  const written = await withProgress(cli, 'rows hashed again', (onProgress) =>
    readLedger(settings, async (auditor) => {
      const report = await audit(auditor, { ...(checkpoints === undefined ? {} : { checkpoints }), onProgress })
      // What was found is what the person needs now: there will be no bundle to look it up in.
      if (!diagnosis.ok) printDiagnosis(diagnosis, cli)
      if (!report.ok) printReport(report, cli)
      const parts = {
        catalog,
        deployments: history,
        settings: await readSettings(auditor),
        doctor: diagnosis,
        audit: report,
        conformance,
        checkpoints: await checkpointTexts(flags),
      }
      return writeEvidence(folder, parts, databaseSource(auditor), privateKey)
    }),
  )
  if (flags['json'] === true) return cli.terminal.printJson({ folder, ...written })
  cli.terminal.print(`${written.files} files are in ${folder}. The SHA-256 of its manifest, to be kept elsewhere:`)
  cli.terminal.print(`  ${written.sha256}`)
  cli.terminal.print(`To check it: symphony evidence check ${folder}`)
}

async function checkpointTexts(flags: GivenFlags) {
  const [file, key] = [textFlag(flags, 'checkpoints'), textFlag(flags, 'publicKey')]
  if (file === undefined || key === undefined) return undefined
  const text = (await linesIn(file)).map((line) => `${line}\n`).join('')
  return { text, publicKeyPem: await readFile(key, 'utf8') }
}

/** Shipped with the package. Found by walking up, because compiled code lies deeper in it than its source. */
async function readConformance(): Promise<string> {
  for (let folder = dirname(fileURLToPath(import.meta.url)); ; folder = dirname(folder)) {
    const text = await readFile(join(folder, 'docs', 'conformance.md'), 'utf8').catch(() => undefined)
    if (text !== undefined) return text
    if (folder === dirname(folder)) {
      throw new AppError('CONFORMANCE_MISSING', 'The page docs/conformance.md is missing from this package.', {
        remedy: 'Install the package again.',
      })
    }
  }
}
