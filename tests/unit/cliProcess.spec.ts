import { type ChildProcess, spawn } from 'node:child_process'
import { openSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../embedded/index.js'
import { readProposal } from '../../libs/outbox/index.js'
import { builtPath } from '../support/builtPath.js'
import { createTestDatabase } from '../support/database.js'
import { createPerson, enqueueUnknown, propose } from '../support/outboxPeople.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

const BIN = fileURLToPath(new URL('../../bin/symphony', import.meta.url))
const MAIN = pathToFileURL(builtPath('libs/cli/main.js')).href

interface Ended {
  readonly exitCode: number | string
  readonly stdout: string
  readonly stderr: string
}

function spawnNode(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  /** Stream that is written to a full disk. */
  { full }: { readonly full?: 'stdout' | 'stderr' } = {},
): { readonly child: ChildProcess; readonly ended: Promise<Ended> } {
  const to = (name: string) => (name === full ? openSync('/dev/full', 'w') : 'pipe')
  const child = spawn(process.execPath, args, {
    stdio: ['ignore', to('stdout'), to('stderr')],
    env: { ...process.env, ...env },
  })
  let [stdout, stderr] = ['', '']
  child.stdout?.on('data', (chunk) => (stdout += String(chunk)))
  child.stderr?.on('data', (chunk) => (stderr += String(chunk)))
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => resolve({ exitCode: code ?? signal ?? 'lost', stdout, stderr }))
  })
  return { child, ended }
}

async function symphony(...words: readonly string[]): Promise<Ended> {
  return spawnNode([BIN, ...words]).ended
}

async function freshDataDir(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  return join(folder, 'symphony')
}

/** Lists the files that a start left behind, without the copied programs, which the next start reuses. */
async function leftBehind(dataDir: string): Promise<readonly string[]> {
  const names = await readdir(dataDir).catch(() => [])
  return names.filter((name) => !name.startsWith('binaries-'))
}

describe('symphony db', () => {
  test('start leaves a server running, url prints its address, stop ends it; repeats are harmless', async () => {
    const dataDir = await freshDataDir()
    const folder = ['--data-dir', dataDir]
    const started = await symphony('db', 'start', ...folder)
    expect(started).toMatchObject({ exitCode: 0, stdout: expect.stringContaining(`is running in ${dataDir}`) })
    expect(started.stderr).toContain(`db stop --data-dir ${dataDir}\n`)

    const again = await symphony('db', 'start', '--json', ...folder)
    expect(JSON.parse(again.stdout)).toMatchObject({ dataDir, version: 18, adopted: true, ownerPid: null })
    // Only `db url` prints the password.
    expect(started.stdout + started.stderr + again.stdout + again.stderr).not.toContain('postgres://')

    const { stdout: url } = await symphony('db', 'url', ...folder)
    const client = new Client(url.trim())
    await client.connect()
    expect((await client.query('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await client.end()

    expect(await symphony('db', 'stop', '--json', ...folder)).toMatchObject({
      exitCode: 0,
      stdout: '{"stopped":true}\n',
    })
    expect(await symphony('db', 'stop', '--json', ...folder)).toMatchObject({
      exitCode: 0,
      stdout: '{"stopped":false}\n',
    })
    expect(await symphony('db', 'url', ...folder)).toMatchObject({ exitCode: 3, stdout: '' })
  })

  test('stop needs --force if the process that started the server is alive', async () => {
    const dataDir = await freshDataDir()
    await startEmbedded({ dataDir })
    const adopted = await symphony('db', 'start', '--data-dir', dataDir)
    expect(adopted.stderr).toContain(`belongs to process ${process.pid}`)
    expect(await symphony('db', 'stop', '--data-dir', dataDir)).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('--force'),
    })
    expect(await symphony('db', 'stop', '--force', '--data-dir', dataDir)).toMatchObject({ exitCode: 0 })
  })

  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const)('start that receives %s exits with code %i and leaves nothing behind', async (signal, exitCode) => {
    const dataDir = await freshDataDir()
    const { child, ended } = spawnNode([BIN, 'db', 'start', '--data-dir', dataDir])
    await expect.poll(() => leftBehind(dataDir)).toHaveLength(1)
    child.kill(signal)
    expect(await ended).toMatchObject({ exitCode, stdout: '', stderr: expect.stringContaining(`Stopped by ${signal}`) })
    expect(await leftBehind(dataDir)).toEqual([])
  })
})

test('a second signal ends a command that ignores the first', async () => {
  const program = `
    const { SignalHandler } = await import('${MAIN}')
    new SignalHandler(() => console.log('first'))
    setInterval(() => {}, 1e6)
    console.log('ready')`
  const { child, ended } = spawnNode(['--input-type=module', '--eval', program])
  const output: string[] = []
  child.stdout?.on('data', (chunk) => output.push(String(chunk).trim()))
  await expect.poll(() => output).toEqual(['ready'])
  child.kill('SIGTERM')
  await expect.poll(() => output).toEqual(['ready', 'first'])
  child.kill('SIGINT')
  expect((await ended).exitCode).toBe(130)
})

describe('a command whose reader closes stdout', () => {
  test('ends silently with exit code 0 if it is done by then', async () => {
    const { child, ended } = spawnNode([BIN, '--help'])
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ exitCode: 0, stderr: '' })
  })

  test('ends silently with exit code 141 if it was still reading', async () => {
    const db = await createTestDatabase()
    onTestFinished(() => db.drop())
    const { child, ended } = spawnNode([BIN, 'status', '--watch'], { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema })
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ exitCode: 141, stderr: '' })
  })

  test('stops deciding, names the proposals that it did not decide, and exits with 141', async () => {
    const db = await createTestDatabase()
    onTestFinished(() => db.drop())
    const proposer = await createPerson(db, 'proposer')
    const proposals: string[] = []
    for (let count = 0; count < 6; count += 1) {
      const { outboxId } = await enqueueUnknown(db)
      proposals.push(await propose(proposer, outboxId, 'DISPATCHED'))
    }
    const { url } = await db.createLogin('approver', { roles: ['symphony_control'] })
    const { child, ended } = spawnNode([BIN, 'approve', ...proposals], {
      DATABASE_URL: url,
      SYMPHONY_SCHEMA: db.schema,
    })
    child.stdout?.destroy()
    const { exitCode, stderr } = await ended
    const found = await Promise.all(proposals.map((id) => readProposal(db.as('symphony_control'), id)))
    const open = found.filter((proposal) => proposal?.status === 'OPEN').map((proposal) => proposal?.proposalId)
    expect(open.length).toBeGreaterThan(0)
    expect({ exitCode, stderr }).toEqual({ exitCode: 141, stderr: `No answer for: ${open.join(' ')}\n` })
  })
})

describe('a full disk', () => {
  test('loses lines of the log and ends no process', async () => {
    const lifecycle = pathToFileURL(builtPath('libs/cli/processes/lifecycle.js')).href
    const script = `import { createLog } from ${JSON.stringify(lifecycle)}
      const log = createLog('info', 'worker')
      for (let line = 0; line < 3; line += 1) log.info({ line }, 'started')
      setTimeout(() => console.log('alive'), 50)`
    const { exitCode, stdout } = await spawnNode(['--input-type=module', '-e', script], {}, { full: 'stderr' }).ended
    expect({ exitCode, stdout }).toEqual({ exitCode: 0, stdout: 'alive\n' })
  })

  test('makes a command whose result it loses exit with 1', async () => {
    const { exitCode, stderr } = await spawnNode([BIN, '--help'], {}, { full: 'stdout' }).ended
    expect({ exitCode, stderr }).toEqual({ exitCode: 1, stderr: '' })
  })
})
