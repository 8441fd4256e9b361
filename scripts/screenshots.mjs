// Takes the screenshots of docs/reference/screenshots.md again, with a real server, database and browser.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const words = ['run', '--config', 'tests/screenshots.config.ts']
process.exitCode = spawnSync(process.execPath, [vitest, ...words], { cwd: root, stdio: 'inherit' }).status ?? 1
