// Writes deploy/prometheus, deploy/grafana and docs/reference/alerts.md from the rules in libs/observability/alerts.
// Run it after a change of the rules, their scenarios or the dashboard; tests compare the files with the sources.
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, 'run', 'tests/contract/monitoring.spec.ts'], {
  cwd: root,
  env: { ...process.env, SYMPHONY_WRITE_MONITORING: '1' },
  stdio: 'inherit',
})
process.exitCode = status ?? 1
