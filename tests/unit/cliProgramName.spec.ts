import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createProgram } from '../../libs/cli/program.js'
import { programName } from '../../libs/cli/terminal/installation.js'
import { Terminal } from '../../libs/cli/terminal/Terminal.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

/** Creates a new folder with an empty file bin/symphony in its subfolder `place`. */
async function scriptIn(place: string): Promise<{ readonly folder: string; readonly script: string }> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  await mkdir(join(folder, place, 'bin'), { recursive: true })
  const script = join(folder, place, 'bin', 'symphony')
  await writeFile(script, '')
  return { folder, script }
}

describe('programName', () => {
  test('is the path of bin/symphony in a checkout, relative if it is below the current folder', async () => {
    const { folder, script } = await scriptIn('checkout')
    expect(programName(script, { path: '', cwd: join(folder, 'checkout') })).toBe('./bin/symphony')
    expect(programName(script, { path: '', cwd: folder })).toBe('./checkout/bin/symphony')
    expect(programName(script, { path: '', cwd: join(folder, 'checkout', 'bin', 'x') })).toBe(script)
  })

  test('is quoted for the shell if the path has spaces', async () => {
    const { folder, script } = await scriptIn('my checkout')
    expect(programName(script, { path: '', cwd: folder })).toBe(`'./my checkout/bin/symphony'`)
  })

  test('is npx symphony-pg for an installed package, whether npx runs it or not', async () => {
    const { folder, script } = await scriptIn('node_modules/symphony-pg')
    expect(programName(script, { path: '', cwd: folder })).toBe('npx symphony-pg')
    const ofNpx = join(folder, 'node_modules', '.bin')
    await mkdir(ofNpx)
    await symlink(script, join(ofNpx, 'symphony'))
    expect(programName(script, { path: ofNpx, cwd: folder })).toBe('npx symphony-pg')
  })

  test('is symphony if PATH finds this file, and npx symphony-pg if PATH finds another file', async () => {
    const { folder, script } = await scriptIn('node_modules/symphony-pg')
    const other = await scriptIn('other')
    await symlink(script, join(folder, 'symphony'))
    await symlink(other.script, join(other.folder, 'symphony'))
    expect(programName(script, { path: `/none:${folder}`, cwd: folder })).toBe('symphony')
    expect(programName(script, { path: other.folder, cwd: folder })).toBe('npx symphony-pg')
  })
})

test('the help of an installed package shows its usage as npx symphony-pg', async () => {
  const { script } = await scriptIn('node_modules/symphony-pg')
  const stream = new Writable({ write: (_chunk, _encoding, done) => done() })
  const terminal = new Terminal({ stdout: stream, stderr: stream, env: {} })
  const cli = { env: {}, terminal, signal: new AbortController().signal }
  const program = await createProgram(['node', script, '--help'], cli)
  expect(program.helpInformation()).toMatch(/^Usage: npx symphony-pg \[options\]/)
})

test('a terminal prints commands with the program name, and leaves SQL and JSON unchanged', () => {
  let text = ''
  const stream = new Writable({ write: (chunk, _encoding, done) => ((text += String(chunk)), done()) })
  const program = { name: './bin/symphony', commands: ['deploy', 'db'] }
  const terminal = new Terminal({ stdout: stream, stderr: stream, env: {}, program })
  terminal.print('The schema symphony is old: symphony deploy --reapply')
  terminal.note('psql "$(symphony db url)"')
  terminal.printRaw('-- symphony deploy')
  terminal.printJson({ remedy: 'symphony deploy' })
  expect(text.split('\n')).toEqual([
    'The schema symphony is old: ./bin/symphony deploy --reapply',
    'psql "$(./bin/symphony db url)"',
    '-- symphony deploy',
    '{"remedy":"symphony deploy"}',
    '',
  ])
})
