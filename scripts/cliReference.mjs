// Writes docs/reference/cli.md from the program's commands. Run it after a change of commands or options; a test
// compares the page.
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureBuilt } from './build.mjs'

ensureBuilt()
const { createProgram } = await import('../dist/libs/cli/program.js')
const { cliReference } = await import('../dist/libs/cli/terminal/surface.js')
const { Terminal } = await import('../dist/libs/cli/terminal/Terminal.js')

const terminal = new Terminal({ stdout: process.stdout, stderr: process.stderr, env: {} })
const program = await createProgram(['node', 'symphony'], { env: {}, terminal, signal: new AbortController().signal })
const page = join(dirname(fileURLToPath(import.meta.url)), '../docs/reference/cli.md')
writeFileSync(page, cliReference(program))
