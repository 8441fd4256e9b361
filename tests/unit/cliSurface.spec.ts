import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import type { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createProgram } from '../../libs/cli/program.js'
import { everyCommand, helpOf, surfaceOf, type CommandSurface } from '../../libs/cli/terminal/surface.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { symphony } from '../support/commandLine.js'

/** Tests of the whole command line: help texts and shell completion. */

let program: Command
let commands: readonly CommandSurface[]
let folder: string
beforeAll(async () => {
  program = await programFor()
  commands = everyCommand(surfaceOf(program)).slice(1)
  folder = mkdtempSync(join(tmpdir(), 'symphony-completion-'))
})
afterAll(() => rmSync(folder, { recursive: true }))

function programFor(...words: string[]): Promise<Command> {
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = new Terminal({ stdout: silent, stderr: silent, env: {} })
  return createProgram(['node', 'symphony', ...words], { env: {}, terminal, signal: new AbortController().signal })
}

function commandAt(path: readonly string[]): Command {
  return path.reduce((at, word) => at.commands.find((command) => command.name() === word)!, program)
}

async function script(shell: string): Promise<string> {
  return (await symphony(['completion', shell])).stdout
}

/** Returns the completions that bash offers at the end of the line. */
function complete(line: string): string[] {
  const driver = `
    source "$1"; words=($2); [[ $2 == *' ' ]] && words+=('')
    COMP_WORDS=("\${words[@]}"); COMP_CWORD=$((\${#words[@]} - 1)); _symphony; printf '%s\\n' "\${COMPREPLY[@]}"`
  const { stdout, stderr } = spawnSync('bash', ['-c', driver, 'bash', join(folder, 'symphony.bash'), line])
  if (String(stderr) !== '') throw new Error(String(stderr))
  return String(stdout).split('\n').filter(Boolean).toSorted()
}

async function namesFor(...words: string[]): Promise<string[]> {
  return (await programFor(...words)).commands.map((command) => command.name())
}

test('the program loads only the requested command, none for --version and all for --help', async () => {
  expect(await namesFor('--version')).toEqual([])
  expect(await namesFor('-V')).toEqual([])
  expect(await namesFor('--debug', 'status', '--json')).toEqual(['status'])
  const all = program.commands.map((command) => command.name())
  expect(await namesFor('--help')).toEqual(all)
  expect(await namesFor('--version', 'unknown')).toEqual(all)
})

test('the program has each command that this spec lists', () => {
  const words = commands.map(({ path }) => path.join(' '))
  expect(words).toEqual(
    expect.arrayContaining([
      'start',
      'worker',
      'scheduler',
      'deploy',
      'doctor',
      'demo',
      'enqueue',
      'status',
      'show',
      'dlq list',
      'redrive',
      'cancel',
      'holds list',
      'holds resolve',
      'approve',
      'pause',
      'resume',
      'freeze lift',
      'jobs list',
      'leases list',
      'inbox list',
      'ledger verify',
      'db start',
      'db stop',
      'db url',
      'completion',
    ]),
  )
})

test('every command has a description and an example that calls it', () => {
  const silent = commands.filter(({ path, description }) => {
    const examples = /\nExamples:\n((?:  .+\n?)+)/.exec(helpOf(commandAt(path)))?.[1] ?? ''
    return description === '' || !examples.includes(`symphony ${path.join(' ')}`)
  })
  expect(silent.map(({ path }) => path.join(' '))).toEqual([])
})

test('every option has a description', () => {
  const silent = commands.flatMap(({ path, options }) =>
    options.filter(({ description }) => description === '').map(({ names }) => `${path.join(' ')} ${names.join(', ')}`),
  )
  expect(silent).toEqual([])
})

test('commands that decide about payments or stop them have --dry-run, --reason and --json', () => {
  const deciding = ['cancel', 'redrive', 'holds resolve', 'pause', 'resume', 'freeze place', 'freeze lift']
  for (const words of deciding) {
    const { options } = commands.find(({ path }) => path.join(' ') === words)!
    const names = options.flatMap((option) => option.names)
    expect([words, names]).toEqual([words, expect.arrayContaining(['--dry-run', '--reason', '--json'])])
  }
})

test('every command that ends on its own has --json, except completion', () => {
  const mute = commands.filter(
    ({ commands: below, options }) => below.length === 0 && !options.some(({ names }) => names.includes('--json')),
  )
  // The first four run until they are stopped; completion prints a script.
  expect(mute.map(({ path }) => path.join(' '))).toEqual(['start', 'api', 'worker', 'scheduler', 'completion'])
})

describe('symphony completion', () => {
  test.for(['bash', 'zsh', 'fish'])('prints a script for %s with every command and every option', async (shell) => {
    const text = await script(shell)
    for (const { path, options } of commands) {
      expect(text).toContain(path.at(-1))
      for (const name of options.flatMap((option) => option.names)) {
        const spelled = name.startsWith('--') ? `-l ${name.slice(2)} ` : `-s ${name.slice(1)} `
        expect(text).toContain(shell === 'fish' ? spelled : name)
      }
    }
  })

  test('refuses an unknown shell (exit code 2) and names the supported shells', async () => {
    const { exitCode, stderr } = await symphony(['completion', 'tcsh'])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('bash, zsh, fish')
  })

  test('completes commands, subcommands, options, choices and files in bash', async () => {
    writeFileSync(join(folder, 'symphony.bash'), await script('bash'))
    writeFileSync(join(folder, 'rails.mjs'), '')
    expect(complete('symphony ho')).toEqual(['holds'])
    expect(complete('symphony holds ')).toEqual(['--help', '-h', 'list', 'note', 'place', 'resolve'])
    expect(complete('symphony holds resolve --d')).toEqual(['--data-dir', '--database-url', '--decision', '--dry-run'])
    expect(complete('symphony holds resolve 01981 --decision ')).toEqual(['dispatched', 'failed', 'retry'])
    expect(complete('symphony pause r')).toEqual(['rail'])
    expect(complete('symphony completion ')).toEqual(expect.arrayContaining(['bash', 'fish', 'zsh']))
    expect(complete(`symphony worker --rails ${folder}/r`)).toEqual([`${folder}/rails.mjs`])
    expect(complete('symphony holds place --reason ')).not.toContain('--json')
    expect(complete('symphony frobnicate ')).toContain('status')
  })
})
