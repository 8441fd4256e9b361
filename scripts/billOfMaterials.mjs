// Creates the library's bill of materials (CycloneDX): its dependencies, and the packages bundled into dist/. Reads the
// lock file, not node_modules.
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Development packages whose code is bundled into dist/: the phone number check and the dashboard. */
const BUNDLED = new Set(['libphonenumber-js', 'preact', '@preact/signals', '@preact/signals-core', 'uplot'])

export function billOfMaterials() {
  const { components: all, dependencies, metadata, ...rest } = npmSbom()
  const components = all.filter((component) => BUNDLED.has(component.name) || !isForDevelopment(component))
  for (const component of components)
    component.properties = component.properties.filter((one) => one.name !== DEVELOPMENT)
  // Some manifests write `or` in their licence expression; SPDX requires `OR`.
  for (const licence of components.flatMap(({ licenses = [] }) => licenses))
    if (licence.expression !== undefined) licence.expression = licence.expression.replaceAll(' or ', ' OR ')
  const kept = new Set([metadata.component, ...components].map((component) => component['bom-ref']))
  return {
    ...rest,
    metadata: { ...metadata, component: { ...metadata.component, name: 'symphony-pg' } },
    components,
    dependencies: dependencies
      .filter(({ ref }) => kept.has(ref))
      .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((other) => kept.has(other)) })),
  }
}

const DEVELOPMENT = 'cdx:npm:package:development'

/**
 * Reads npm's mark of development packages, because `--omit dev` also omits packages that users and development tools
 * both need.
 */
function isForDevelopment({ properties }) {
  return properties.some(({ name }) => name === DEVELOPMENT)
}

function npmSbom() {
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--sbom-type', 'library', '--package-lock-only']
  const { status, stdout, stderr } = spawnSync('npm', [...words, '--workspaces', 'false'], {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 2 ** 28,
  })
  if (status !== 0) throw new Error(`npm sbom failed: ${stderr}`)
  return JSON.parse(stdout)
}
