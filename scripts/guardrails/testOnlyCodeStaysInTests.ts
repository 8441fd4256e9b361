import type { Finding, Guardrail } from './guardrail.js'
import { isTypeScript, type SourceFile } from './repository.js'
import { importsOf } from './typescriptImports.js'
import { tokensOf } from './typescriptTokens.js'

/** Code for tests is neither built nor packed nor imported by other code. */
export const testOnlyCodeStaysInTests: Guardrail = {
  name: 'nothing that only tests may use is part of the build',
  check: (repository) => {
    const manifest = repository.find(({ path }) => path === 'package.json')
    const built = repository.filter((file) => isTypeScript(file) && /^(?:libs|bin)\//.test(file.path))
    return [...packedFolders(manifest), ...built.flatMap((file) => findingsIn(file, developmentPackages(manifest)))]
  },
}

const TEST_ONLY_NAMES = new Set(['queryNoRole'])
/** Development packages that are bundled into the dashboard's script, so that the package does not depend on them. */
const BUNDLED = new Set(['preact', '@preact/signals', 'uplot'])
const TEST_FOLDERS = /^(?:\.\.\/)+(?:tests|bench)\//

function findingsIn(file: SourceFile, developmentOnly: ReadonlySet<string>): Finding[] {
  const imports = importsOf(file)
    .filter(({ specifier }) => TEST_FOLDERS.test(specifier) || developmentOnly.has(packageOf(specifier)))
    .filter(({ specifier }) => !(file.path.startsWith('libs/dashboard/') && BUNDLED.has(packageOf(specifier))))
    .map(({ specifier, line }) => ({ file: file.path, line, message: `imports "${specifier}", which only tests may` }))
  const powers = tokensOf(file)
    .filter(({ kind, text }) => kind === 'word' && TEST_ONLY_NAMES.has(text))
    .map(({ text, line }) => ({ file: file.path, line, message: `only tests may use ${text}` }))
  return [...imports, ...powers]
}

function packageOf(specifier: string): string {
  return /^(?:@[^/]+\/)?[^/]+/.exec(specifier)?.[0] ?? ''
}

interface Manifest {
  readonly files?: readonly string[]
  readonly devDependencies?: Readonly<Record<string, string>>
}

function parseManifest(file: SourceFile | undefined): Manifest {
  return JSON.parse(file?.text ?? '{}')
}

function developmentPackages(manifest: SourceFile | undefined): ReadonlySet<string> {
  return new Set(Object.keys(parseManifest(manifest).devDependencies ?? {}))
}

function packedFolders(manifest: SourceFile | undefined): Finding[] {
  const packed = (parseManifest(manifest).files ?? []).filter((path) => /^(?:tests|bench)(?:\/|$)/.test(path))
  return packed.map((path) => ({ file: 'package.json', line: 1, message: `packs ${path}, which only tests may use` }))
}
