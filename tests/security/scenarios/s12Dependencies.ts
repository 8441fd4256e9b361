import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { billOfMaterials } from '../../../scripts/billOfMaterials.mjs'
import { readDependencies } from '../../support/dependencies.js'
import { defineScenario } from '../../scorecard/Scenario.js'

const DIRECT_MAX = 16
export const SBOM_FILE = 'docs/sbom.cdx.json'

export default defineScenario({
  id: 'S12',
  title: `The dependencies in \`package.json\` and the lock file are checked, also by \`npm audit --omit=dev\`, and the SBOM is written to ${SBOM_FILE}.`,
  bar: `At most ${DIRECT_MAX} direct dependencies, all locked; 0 install scripts, 0 known advisories.`,
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
        ...(advisories === undefined
          ? ['npm audit got no answer from the registry; run the scenario with access to it']
          : []),
        ...(advisories !== undefined && advisories > 0 ? [`${advisories} known advisories`] : []),
        ...(components === 0 ? ['the SBOM is empty'] : []),
      ],
    }
  },
})

/** Returns undefined if the registry has no list of advisories. Some mirrors have none. */
async function countAdvisories(): Promise<number | undefined> {
  const report: { readonly metadata?: { readonly vulnerabilities?: { readonly total?: number } } } = JSON.parse(
    await npm('audit', '--omit=dev', '--json'),
  )
  return report.metadata?.vulnerabilities?.total
}

/** Writes the same bytes for the same dependencies: no serial number, no time. */
async function writeSbom(): Promise<number> {
  const { serialNumber: _serial, metadata, ...rest } = billOfMaterials()
  const { timestamp: _time, ...about } = metadata
  await writeFile(SBOM_FILE, `${JSON.stringify({ ...rest, metadata: about }, undefined, 2)}\n`)
  return rest.components.length
}

/** Returns the output of npm for any exit code, because findings give a nonzero code. */
async function npm(...words: readonly string[]): Promise<string> {
  const run = promisify(execFile)('npm', words, { maxBuffer: 64 * 1_024 * 1_024 })
  const { stdout } = await run.catch((error: { readonly stdout: string }) => error)
  return stdout
}
