// Bundles the one function of libphonenumber-js that we call, with its numbering plans and licences, into dist/vendor: 0.1 MB of
// the package's 10 MB.
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const target = join(root, 'dist', 'vendor')
const source = dirname(createRequire(import.meta.url).resolve('libphonenumber-js/package.json'))
const ENTRY = 'phoneNumbers.js'

const { version } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'))
const [{ output }] = await build({
  configFile: false,
  root,
  logLevel: 'error',
  plugins: [
    {
      name: 'entry',
      resolveId: (id) => (id.endsWith(ENTRY) ? ENTRY : undefined),
      load: (id) => (id === ENTRY ? `export { parsePhoneNumberFromString } from 'libphonenumber-js/min'` : undefined),
    },
  ],
  build: { write: false, target: 'es2022', lib: { entry: ENTRY, formats: ['es'] } },
})
const banner = `/*! Made of libphonenumber-js ${version}. Licences: phoneNumbers.LICENSE.txt */\n`
const licences = ['LICENSE', 'LICENSE.Apache'].map((file) => readFileSync(join(source, file), 'utf8').trim())

mkdirSync(target, { recursive: true })
put('phoneNumbers.LICENSE.txt', `libphonenumber-js ${version}\n\n${licences.join('\n\n\n')}\n`)
put(ENTRY, banner + output[0].code)

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
