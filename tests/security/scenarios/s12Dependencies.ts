import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { billOfMaterials } from '../../../scripts/billOfMaterials.mjs'
import { readDependencies } from '../../support/dependencies.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

const DIRECT_MAX = 15
export const SBOM_FILE = 'docs/sbom.cdx.json'

export default defineScenario({
  id: 'S12',
  title: `dependencies: \`package.json\`, the lock file, \`npm audit --omit=dev\`; the SBOM is ${SBOM_FILE}`,
  bar: `at most ${DIRECT_MAX}, pinned, no install script needed, 0 known advisories, SBOM written`,
  sizes: { full: {}, short: {} },
  async run() {
    const { direct, installed, defects } = await readDependencies()
    const advisories = await countAdvisories()
    const components = await writeSbom()
    return {
      figures: { direct, installed, advisories: advisories ?? 'not known', sbomComponents: components },
      defects: [
        ...defects,
        ...(direct > DIRECT_MAX ? [`${direct} direct dependencies`] : []),
        ...(advisories === undefined ? ['the registry did not answer npm audit, so nobody knows of advisories'] : []),
        ...(advisories !== undefined && advisories > 0 ? [`${advisories} known advisories`] : []),
        ...(components === 0 ? ['the SBOM is empty'] : []),
      ],
    }
  },
})

/** Undefined where the registry cannot be asked: a mirror may have no such list. */
async function countAdvisories(): Promise<number | undefined> {
  const report: { readonly metadata?: { readonly vulnerabilities?: { readonly total?: number } } } = JSON.parse(
    await npm('audit', '--omit=dev', '--json'),
  )
  return report.metadata?.vulnerabilities?.total
}

/** Writes the same bytes for the same dependencies: without serial number and time. */
async function writeSbom(): Promise<number> {
  const { serialNumber: _serial, metadata, ...rest } = billOfMaterials()
  const { timestamp: _time, ...about } = metadata
  await writeFile(SBOM_FILE, `${JSON.stringify({ ...rest, metadata: about }, undefined, 2)}\n`)
  return rest.components.length
}

/** What it says, whatever its exit code: findings are an answer. */
async function npm(...words: readonly string[]): Promise<string> {
  const run = promisify(execFile)('npm', words, { maxBuffer: 64 * 1_024 * 1_024 })
  const { stdout } = await run.catch((error: { readonly stdout: string }) => error)
  return stdout
}
