import type { Guardrail } from './guardrail.js'

/**
 * The package exports only libs/index.ts and files of libs/entry. The linter cannot check this, because it does not
 * read package.json.
 */
export const exportsAreEntryPoints: Guardrail = {
  name: 'package.json exports only entry points',
  check: (repository) => {
    const manifest = repository.find(({ path }) => path === 'package.json')
    if (manifest === undefined) return []
    const targets = [...JSON.stringify(JSON.parse(manifest.text).exports ?? {}).matchAll(/"(\.\/[^"]*\.[jt]s)"/g)]
    return targets
      .map(([, target = '']) => target)
      .filter((target) => !/^\.\/dist\/libs\/(?:index|entry\/[a-z]+)(?:\.d)?\.[jt]s$/.test(target))
      .map((target) => ({
        file: manifest.path,
        line: manifest.text.slice(0, manifest.text.indexOf(target)).split('\n').length,
        message: `exports ${target}, which is not an entry point`,
      }))
  },
}
