// The bill of materials of the library (CycloneDX): the packages that a user installs with it, and those that the build copies into
// it. It follows the lock file, not the folder node_modules.
import { spawnSync } from 'node:child_process'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Packages for development whose code is in dist/: in the check of phone numbers and in the dashboard. */
const BUNDLED = new Set(['libphonenumber-js', 'preact', '@preact/signals', '@preact/signals-core', 'uplot'])

export function billOfMaterials() {
  const { components: all, dependencies, metadata, ...rest } = npmSbom()
  const components = all.filter((component) => BUNDLED.has(component.name) || !isForDevelopment(component))
  for (const component of components)
    component.properties = component.properties.filter((one) => one.name !== DEVELOPMENT)
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

/** npm marks these itself. Its option `--omit dev` also leaves out packages that both a user and a tool need. */
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
