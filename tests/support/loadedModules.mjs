// Loaded with `node --import`. Writes the URL of every loaded module to file descriptor 3.
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

// The hooks miss modules that a required module requires. The cache has them.
const { cache } = createRequire(import.meta.url)
process.on('exit', () => {
  for (const file of Object.keys(cache)) writeSync(3, `${file}\n`)
})
