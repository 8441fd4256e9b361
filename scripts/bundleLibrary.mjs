// Bundles the compiled modules in dist/.modules: code that is always loaded together becomes one file in dist/chunks.
// Each module keeps its file in dist/libs, which exports from the chunk, so that all importers share one instance.
//
//   node scripts/bundleLibrary.mjs [DIST]
import { mkdirSync, readdirSync, readFileSync, realpathSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix, relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Programs that our code starts by their path. */
const PROGRAMS = ['libs/cli/childMain.js', 'libs/cli/main.js', 'libs/rails/simulated/railBookProcess.js']

/** Bundles the modules of a build folder, by default dist/. */
export async function bundleLibrary(dist = join(root, 'dist')) {
  const modules = realpathSync(join(dist, '.modules'))
  const all = filesBelow(modules).filter((file) => file.endsWith('.js'))
  const chunkOf = await chunksOf(modules)
  const { output } = await generate(modules, all, {
    plugins: [{ name: 'location', transform: (code, id) => withLocation(code, relative(modules, id), chunkOf) }],
    output: {
      chunkFileNames: 'chunks/[name].js',
      codeSplitting: {
        includeDependenciesRecursively: false,
        groups: [{ debugName: 'chunks', name: (id) => chunkOf.get(relative(modules, id)) ?? null }],
      },
    },
  })
  for (const { fileName, code } of output) put(join(dist, fileName), code)
  const written = new Set(output.map(({ fileName }) => fileName))
  for (const name of filesBelow(join(dist, 'chunks'))) {
    if (!written.has(posix.join('chunks', name))) rmSync(join(dist, 'chunks', name))
  }
}

/**
 * Returns the chunk of each module: modules that the same programs and entry points load share one. A module that is
 * itself a program or an entry point, or that a dynamic import names, has none, because its own file is loaded anyway.
 */
async function chunksOf(modules) {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  const entries = Object.values(exports).flatMap((target) => target.default?.replace('./dist/', '') ?? [])
  const { output } = await generate(modules, [...PROGRAMS, ...entries], { output: { chunkFileNames: '[name].js' } })
  const chunks = new Map()
  for (const { fileName, moduleIds, facadeModuleId } of output) {
    const name = fileName.replace(/^libs\/|\.js$/g, '').replaceAll('/', '-')
    for (const id of moduleIds) if (id !== facadeModuleId) chunks.set(relative(modules, id), name)
  }
  return chunks
}

async function generate(modules, files, { output, ...input }) {
  const bundle = await rolldown({
    ...input,
    cwd: modules,
    input: Object.fromEntries(files.map((file) => [file, join(modules, file)])),
    platform: 'node',
    // Other packages stay imports.
    external: (id) => !/^[./]/.test(id),
    treeshake: false,
    preserveEntrySignatures: 'allow-extension',
  })
  try {
    return await bundle.generate({ format: 'esm', entryFileNames: '[name]', keepNames: true, ...output })
  } finally {
    await bundle.close()
  }
}

/** Keeps the value of `import.meta.url` in a module that moves into a chunk: its code finds files relative to it. */
function withLocation(code, file, chunkOf) {
  if (!code.includes('import.meta.url') || !chunkOf.has(file)) return undefined
  return code.replaceAll('import.meta.url', `new URL(${JSON.stringify(`../${file}`)}, import.meta.url).href`)
}

function filesBelow(folder) {
  mkdirSync(folder, { recursive: true })
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath ?? entry.path, entry.name)))
    .toSorted()
}

/** Writes by rename, because another process may be loading the file. */
function put(file, text) {
  const draft = `${file}.${process.pid}`
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(draft, text)
  renameSync(draft, file)
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await bundleLibrary(process.argv[2] === undefined ? undefined : resolve(process.argv[2]))
}
