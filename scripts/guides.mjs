// Runs the guides like a reader would, each in an empty folder with a fresh PostgreSQL: `npm run guides -- [PAGE …]`.
// Guides about other queues need bench/peers, which `npm run bench` installs; otherwise they are reported as not run.
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startEmbedded } from '@symphony-pg/embedded'
import { ensureBuilt } from './build.mjs'
import { GUIDES, PEER_GUIDES } from './guides/pages.mjs'
import { runGuide } from './guides/runGuide.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const PEERS = join(root, 'bench', 'peers')
const PEERS_NODE = join(PEERS, 'node_modules', `node-linux-${process.arch}`, 'bin', 'node')
const asked = process.argv.slice(2)

ensureBuilt()
let failed = false
for (const page of [...GUIDES, ...PEER_GUIDES].filter((name) => asked.length === 0 || asked.includes(name))) {
  if (PEER_GUIDES.includes(page) && !existsSync(PEERS_NODE)) print(`not run: ${page}, bench/peers is not installed`)
  else failed = (await run(page)) || failed
}
process.exitCode = failed ? 1 : 0

async function run(page) {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-guide-'))
  // As root, this process runs the server under another account, which must be able to enter the folder.
  await chmod(folder, 0o755)
  const server = await startEmbedded({ dataDir: join(folder, 'server') })
  try {
    const env = { PEERS, PEERS_NODE, SEEDS: join(root, 'tests', 'support', 'guideSeeds') }
    const { steps, problems } = await runGuide({ page, folder, serverUrl: server.url, env })
    print(problems.length === 0 ? `ok: ${page}, ${steps} steps` : `FAILED: ${problems.join('\n')}`)
    return problems.length > 0
  } finally {
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

function print(text) {
  process.stdout.write(`${text}\n`)
}
