// Builds the documentation as static files that need no server: `npm run site`, then open site/index.html.
//
//   npm run site               into site/
//   npm run site -- --out DIR  into DIR
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { buildSite } from './site/build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const { values } = parseArgs({ options: { out: { type: 'string', default: join(root, 'site') } } })
const out = resolve(values.out)
const { pages, bytes } = await buildSite({ root, out })
process.stdout.write(
  `${pages} pages, ${Math.round(bytes / 1024)} KiB: ${join(relative(process.cwd(), out), 'index.html')}\n`,
)
