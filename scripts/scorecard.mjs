// Runs the scenarios of one family: `npm run chaos`, `npm run security`. vite loads them, because they are TypeScript
// and share helpers with the tests.
import { readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createServer, createServerModuleRunner } from 'vite'
import { ensureBuilt } from './build.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')

/** Runs the scenarios in the folder tests/`family`. */
export async function runFamily(family, words = process.argv.slice(2)) {
  // As root, this process runs the server under another account, which must be able to read the files of this process.
  process.umask(0o022)
  process.chdir(root)
  ensureBuilt()
  const vite = await createServer({
    root,
    configFile: false,
    logLevel: 'error',
    appType: 'custom',
    optimizeDeps: { noDiscovery: true, include: [] },
    server: { middlewareMode: true, hmr: false, ws: false, watch: null },
  })
  const runner = createServerModuleRunner(vite.environments.ssr, { hmr: false })
  const load = (file) => runner.import(join(root, file))
  const { runScorecard } = await load('tests/scorecard/runScorecard.ts')
  const scenarios = []
  for (const file of scenarioFiles(family)) scenarios.push((await load(file)).default)
  const isJson = words.includes('--json')
  process.exitCode = await runScorecard(words, {
    family,
    scenarios: scenarios.toSorted((left, right) => numberOf(left) - numberOf(right)),
    print: (text) => void (isJson ? process.stderr : process.stdout).write(`${text}\n`),
    printJson: (line) => void process.stdout.write(`${line}\n`),
  })
  await runner.close()
  await vite.close()
}

function scenarioFiles(family) {
  const folder = join('tests', family, 'scenarios')
  const names = readdirSync(join(root, folder)).filter((name) => name.endsWith('.ts'))
  return names.map((name) => join(folder, name))
}

function numberOf({ id }) {
  return Number(id.slice(1))
}
