// Bundles the used parts of two packages, with their licences, into dist/vendor. libphonenumber-js becomes one function
// with its numbering plans: 0.1 MB of 10 MB. typebox becomes one file instead of 683 modules, which took a process 0.7
// s to load.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'dist', 'vendor')
const BUNDLES = [
  {
    file: 'phoneNumbers',
    of: 'libphonenumber-js',
    entry: `export { parsePhoneNumberFromString } from 'libphonenumber-js/min'`,
    licences: ['LICENSE', 'LICENSE.Apache'],
  },
  {
    file: 'typebox',
    of: 'typebox',
    entry: `export { Type } from 'typebox'; export { Compile } from 'typebox/compile'`,
    licences: ['license'],
  },
]

mkdirSync(target, { recursive: true })
for (const bundle of BUNDLES) await write(bundle)

async function write({ file, of, entry, licences }) {
  const source = join(root, 'node_modules', of)
  const { version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
  const [{ output }] = await build({
    configFile: false,
    root,
    logLevel: 'error',
    plugins: [
      {
        name: 'entry',
        resolveId: (id) => (id.endsWith(`${file}.js`) ? `${file}.js` : undefined),
        load: (id) => (id === `${file}.js` ? entry : undefined),
      },
    ],
    build: { write: false, target: 'es2022', lib: { entry: `${file}.js`, formats: ['es'] } },
  })
  const texts = licences.map((name) => readFileSync(join(source, name), 'utf8').trim())
  put(`${file}.LICENSE.txt`, `${of} ${version}\n\n${texts.join('\n\n\n')}\n`)
  put(`${file}.js`, `/*! Made of ${of} ${version}. Licences: ${file}.LICENSE.txt */\n${output[0].code}`)
}

/** Writes by rename, because another process may be loading the file. */
function put(name, text) {
  const draft = join(target, `${name}.${process.pid}`)
  try {
    writeFileSync(draft, text)
    renameSync(draft, join(target, name))
  } finally {
    rmSync(draft, { force: true })
  }
}
