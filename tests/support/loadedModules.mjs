// Given to node with --import: writes the address of every module that is loaded, a line each, to file descriptor 3.
import { writeSync } from 'node:fs'
import { createRequire, register } from 'node:module'

const hooks = `
  import { writeSync } from 'node:fs'
  export async function load(url, context, next) {
    writeSync(3, url + '\\n')
    return next(url, context)
  }
`
register(`data:text/javascript,${encodeURIComponent(hooks)}`)

// What is required by a module that is required passes by the hooks, but not by the cache.
const { cache } = createRequire(import.meta.url)
process.on('exit', () => {
  for (const file of Object.keys(cache)) writeSync(3, `${file}\n`)
})
