// Writes schema/snapshot.sql and schema/manifest.json from fresh installs on every supported PostgreSQL, and
// docs/internals/schema.md. Run it after each change to schema/ and review the diff; tests compare the files.
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { SCHEMA_PAGE, schemaReference } from './schemaReference.mjs'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const vitest = join(dirname(createRequire(import.meta.url).resolve('vitest/package.json')), 'vitest.mjs')
const { status } = spawnSync(process.execPath, [vitest, 'run', 'tests/unit/deploymentSnapshot.spec.ts'], {
  cwd: root,
  env: { ...process.env, SYMPHONY_WRITE_SNAPSHOT: '1' },
  stdio: 'inherit',
})
if (status === 0) writeFileSync(join(root, SCHEMA_PAGE), schemaReference())
process.exitCode = status ?? 1
