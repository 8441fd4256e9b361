// Writes schema/snapshot.sql and schema/manifest.json anew, from fresh installs on every supported PostgreSQL. Run it
// after each change to schema/, and review the difference: the tests compare both files with what an install gives.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, 'run', 'tests/unit/deploymentSnapshot.spec.ts'], {
  cwd: root,
  env: { ...process.env, SYMPHONY_WRITE_SNAPSHOT: '1' },
  stdio: 'inherit',
})
process.exitCode = status ?? 1
