import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { Client } from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { embeddedUrl, startEmbedded, stopEmbedded } from '../../embedded/index.js'
import {
  copyFolder,
  createStoppedServer,
  makeTestFolder,
  type PostgresVersion,
  removeTestFolder,
  testBinaries,
} from '../support/server.js'

let stopped: string

beforeAll(async () => {
  stopped = join(await makeTestFolder(), 'symphony')
  await createStoppedServer(stopped)
  return () => removeTestFolder(dirname(stopped))
})

async function freshDataDir(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  return join(folder, 'symphony')
}

async function usedDataDir(): Promise<string> {
  const dataDir = await freshDataDir()
  await copyFolder(stopped, dataDir)
  return dataDir
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client(url)
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows
  } finally {
    await client.end()
  }
}

async function postmasterPid(dataDir: string): Promise<number> {
  return Number.parseInt(await readFile(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8'), 10)
}

describe('with startEmbedded,', () => {
  test.each<PostgresVersion>([15, 16, 17, 18])(
    'PostgreSQL %i starts with fsync and checksums, listens on 127.0.0.1 and needs a password',
    async (version) => {
      const dataDir = await freshDataDir()
      const server = await startEmbedded({ dataDir, binaries: testBinaries(version) })
      expect(server).toMatchObject({ version, adopted: false, ownerPid: process.pid, dataDir })
      expect(await embeddedUrl(dataDir)).toBe(server.url)

      const [settings] = await query(
        server.url,
        `SELECT current_setting('server_version_num')::int / 10000 AS version,
                current_setting('fsync') AS fsync,
                current_setting('full_page_writes') AS full_page_writes,
                current_setting('synchronous_commit') AS synchronous_commit,
                current_setting('data_checksums') AS data_checksums,
                current_setting('listen_addresses') AS listen_addresses,
                current_setting('unix_socket_directories') AS unix_socket_directories,
                current_setting('password_encryption') AS password_encryption,
                current_setting('server_encoding') AS server_encoding,
                (SELECT string_agg(DISTINCT auth_method, ',') FROM pg_hba_file_rules) AS auth_methods,
                upper('é') AS upper_case`,
      )
      expect(settings).toEqual({
        version,
        fsync: 'on',
        full_page_writes: 'on',
        synchronous_commit: 'on',
        data_checksums: 'on',
        listen_addresses: '127.0.0.1',
        unix_socket_directories: '',
        password_encryption: 'scram-sha-256',
        server_encoding: 'UTF8',
        auth_methods: 'scram-sha-256',
        upper_case: process.platform === 'darwin' && version < 17 ? 'é' : 'É',
      })
      await server.stop()
      await expect(embeddedUrl(dataDir)).rejects.toMatchObject({ code: 'EMBEDDED_NOT_RUNNING' })
    },
  )

  test('only the owner can read the password file, and a wrong password is refused', async () => {
    const dataDir = await usedDataDir()
    const server = await startEmbedded({ dataDir })
    const file = await stat(join(dataDir, 'postgres/password'))
    expect(file.mode & 0o777).toBe(0o600)
    expect(file.uid).toBe(process.getuid?.())
    expect((await stat(join(dataDir, 'postgres/server.log'))).mode & 0o777).toBe(0o600)
    expect((await stat(join(dataDir, 'postgres/data'))).mode & 0o777).toBe(0o700)

    const wrong = server.url.replace(/:[^:@]+@/, ':guess@')
    await expect(query(wrong, 'SELECT 1')).rejects.toMatchObject({ code: '28P01' })
  })

  test('the server runs as the current user, or as another user if the current user is root', async () => {
    const dataDir = await usedDataDir()
    await startEmbedded({ dataDir })
    const { uid } = await stat(join(dataDir, 'postgres/data/postmaster.pid'))
    expect(uid).not.toBe(0)
    expect(uid === process.getuid?.()).toBe(process.getuid?.() !== 0)
  })

  test('a server starts in a long path with spaces and an apostrophe', async () => {
    const dataDir = join(await freshDataDir(), `it's deep and ${'long '.repeat(30)}`)
    onTestFinished(async () => void (await stopEmbedded(dataDir, { force: true })))
    const server = await startEmbedded({ dataDir })
    const adopted = await startEmbedded({ dataDir })
    expect(adopted).toMatchObject({ adopted: true, url: server.url })
    await server.stop()
  })
})

describe('the next startEmbedded in a used folder', () => {
  test('reuses the data, the password and the port', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    await query(first.url, 'CREATE TABLE kept AS SELECT 42 AS answer')
    await first.stop()
    await first.stop()
    const second = await startEmbedded({ dataDir })
    expect(second).toMatchObject({ url: first.url, adopted: false })
    expect(await query(second.url, 'SELECT answer FROM kept')).toEqual([{ answer: 42 }])
  })

  test('takes another port if its last port is in use, but fails if options.port is that port', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    await first.stop()
    const squatter = createServer().listen(first.port, '127.0.0.1')
    await once(squatter, 'listening')
    onTestFinished(() => void squatter.close())

    await expect(startEmbedded({ dataDir, port: first.port })).rejects.toMatchObject({
      code: 'EMBEDDED_PORT_TAKEN',
      remedy: expect.stringContaining('--port'),
    })
    const second = await startEmbedded({ dataDir })
    expect(second.port).not.toBe(first.port)
    await query(second.url, 'SELECT 1')
  })

  test('ignores a pid file whose process has ended', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    process.kill(await postmasterPid(dataDir), 'SIGKILL')
    await first.stop()
    const second = await startEmbedded({ dataDir })
    expect(second.adopted).toBe(false)
    await query(second.url, 'SELECT 1')
  })

  test('ignores a pid file whose pid now belongs to another process, which keeps running', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    const pidFile = join(dataDir, 'postgres/data/postmaster.pid')
    const stale = await readFile(pidFile, 'utf8')
    await first.stop()

    const { uid, gid } = await stat(join(dataDir, 'postgres/data'))
    const otherProcess = spawn('sleep', ['60'], process.getuid?.() === 0 ? { uid, gid } : {})
    onTestFinished(() => void otherProcess.kill('SIGKILL'))
    await writeFile(pidFile, stale.replace(/^\d+/, String(otherProcess.pid)))

    await expect(embeddedUrl(dataDir)).rejects.toMatchObject({ code: 'EMBEDDED_NOT_RUNNING' })
    expect(await stopEmbedded(dataDir)).toBe(false)
    const second = await startEmbedded({ dataDir })
    expect(second.adopted).toBe(false)
    await query(second.url, 'SELECT 1')
    await second.stop()
    expect(otherProcess.exitCode ?? otherProcess.signalCode).toBeNull()
  })

  test('waits for a backend of a dead server; fails after startTimeoutMs (EMBEDDED_START_TIMEOUT)', async () => {
    // Two servers in one data folder would corrupt the data.
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    const client = new Client(first.url)
    client.on('error', () => {})
    await client.connect()
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    const backend = rows[0]?.pid ?? Number.NaN
    // A stopped backend cannot notice that its server is gone.
    process.kill(backend, 'SIGSTOP')
    process.kill(await postmasterPid(dataDir), 'SIGKILL')
    await first.stop()

    await expect(startEmbedded({ dataDir, startTimeoutMs: 4_000 })).rejects.toMatchObject({
      code: 'EMBEDDED_START_TIMEOUT',
      logTail: expect.stringContaining('shared memory'),
    })
    const second = startEmbedded({ dataDir })
    process.kill(backend, 'SIGKILL')
    expect(await second).toMatchObject({ adopted: false })
    await client.end().catch(() => {})
  })

  test('rotates a log of more than 10 MB, and keeps one old log', async () => {
    const dataDir = await usedDataDir()
    const log = join(dataDir, 'postgres/server.log')
    await truncate(log, 10_000_001)
    await (await startEmbedded({ dataDir })).stop()
    expect((await stat(`${log}.1`)).size).toBe(10_000_001)
    expect((await stat(log)).size).toBeLessThan(10_000)
  })

  test('refuses a folder of another major version and names that version', async () => {
    const dataDir = await freshDataDir()
    await (await startEmbedded({ dataDir, binaries: testBinaries(17) })).stop()
    await expect(startEmbedded({ dataDir, binaries: testBinaries(18) })).rejects.toMatchObject({
      code: 'EMBEDDED_VERSION_MISMATCH',
      message: expect.stringContaining('created by PostgreSQL 17'),
    })
    // The search skips the shipped version, because the folder needs version 17, and finds 17 on the path.
    const found = await startEmbedded({ dataDir, searchPath: `/nowhere:${join(testBinaries(17), 'bin')}` })
    expect(found.version).toBe(17)
  })
})

describe('an unusable folder of startEmbedded', () => {
  test('is refused with a remedy if it is not accessible (EMBEDDED_DATA_DIR)', async () => {
    const dataDir = await usedDataDir()
    if (process.getuid?.() === 0) {
      // If this process runs as root, the server runs as another account, which cannot open this folder.
      await chmod(dataDir, 0o700)
      onTestFinished(() => chmod(dataDir, 0o711))
    } else {
      await chmod(join(dataDir, 'postgres'), 0o000)
      onTestFinished(() => chmod(join(dataDir, 'postgres'), 0o700))
    }
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({
      code: 'EMBEDDED_DATA_DIR',
      remedy: expect.stringMatching(/./),
    })
  })

  test('is refused and left unchanged if its postgres folder is no cluster (EMBEDDED_DATA_DIR)', async () => {
    const dataDir = await freshDataDir()
    await mkdir(join(dataDir, 'postgres'), { recursive: true })
    await chmod(dataDir, 0o711)
    await writeFile(join(dataDir, 'postgres/precious'), 'mine')
    // initdb takes longer than this timeout, so the refusal comes before initdb runs.
    await expect(startEmbedded({ dataDir, startTimeoutMs: 100 })).rejects.toMatchObject({
      code: 'EMBEDDED_DATA_DIR',
      message: expect.stringContaining('exists but contains no PostgreSQL cluster'),
    })
    expect(await readFile(join(dataDir, 'postgres/precious'), 'utf8')).toBe('mine')
  })

  test('is refused if it is a file (EMBEDDED_DATA_DIR)', async () => {
    const dataDir = await freshDataDir()
    await writeFile(dataDir, '')
    await expect(startEmbedded({ dataDir })).rejects.toMatchObject({ code: 'EMBEDDED_DATA_DIR' })
    await rm(dataDir)
  })
})
