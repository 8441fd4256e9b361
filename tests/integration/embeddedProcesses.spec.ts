import { once } from 'node:events'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { embeddedUrl, startEmbedded, stopEmbedded } from '../../embedded/index.js'
import { openDatabase } from '../../libs/db/index.js'
import {
  copyFolder,
  createStoppedServer,
  makeTestFolder,
  removeFoldersOfDeadRuns,
  removeTestFolder,
} from '../support/server.js'
import { StarterKit } from '../support/starterProcess.js'

let kit: StarterKit
let stopped: string

beforeAll(async () => {
  kit = await StarterKit.unpack()
  stopped = join(kit.folder, 'symphony')
  await createStoppedServer(stopped)
  return () => kit.remove()
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

async function connect(url: string): Promise<Client> {
  const client = new Client(url)
  // Several tests stop the server while this client is connected.
  client.on('error', () => {})
  await client.connect()
  return client
}

async function countOf(url: string, table: string): Promise<number> {
  const client = await connect(url)
  try {
    const { rows } = await client.query<{ count: number }>(`SELECT count(*)::int AS count FROM ${table}`)
    return rows[0]?.count ?? -1
  } finally {
    await client.end()
  }
}

async function insertOne(url: string): Promise<void> {
  const client = await connect(url)
  await client.query('CREATE TABLE IF NOT EXISTS payment (id int)')
  await client.query('INSERT INTO payment VALUES (1)')
  await client.end()
}

/** Waits until no server runs in the folder. */
async function serverIsGone(dataDir: string): Promise<void> {
  await expect.poll(() => stat(join(dataDir, 'postgres/data/postmaster.pid')).catch(() => 'gone')).toBe('gone')
}

describe('startEmbedded', () => {
  test('starts one server if four processes call it in an empty folder; three adopt that server', async () => {
    const dataDir = await freshDataDir()
    const starters = await Promise.all(Array.from({ length: 4 }, () => kit.start({ dataDir })))
    const reports = starters.map((starter) => starter.report)
    expect(reports.map((report) => report.error)).toEqual([undefined, undefined, undefined, undefined])
    expect(new Set(reports.map((report) => report.url)).size).toBe(1)
    expect(reports.filter((report) => !report.adopted)).toHaveLength(1)
    await insertOne(reports[0]?.url ?? '')
    // The three unused clusters are removed, and no cluster was moved out of the folder.
    expect(await readdir(dataDir)).toEqual(['postgres'])

    // The server runs until its owner stops. An adopter that stops leaves it running.
    const [owner, ...adopters] = starters.toSorted((a, b) => Number(a.report.adopted) - Number(b.report.adopted))
    for (const adopter of adopters) expect(await adopter.end('stop')).toBe(0)
    expect(await countOf(owner?.report.url ?? '', 'payment')).toBe(1)
    expect(await owner?.end('stop')).toBe(0)
    await serverIsGone(dataDir)
  })

  test('starts although a killed process left its data.starting link in the folder', async () => {
    const dataDir = await usedDataDir()
    // Imitates the link that a killed starter leaves: it names a pid that does not exist.
    await symlink('2147483646', join(dataDir, 'postgres', 'data.starting'))
    const server = await startEmbedded({ dataDir })
    expect(server.adopted).toBe(false)
    expect((await readdir(join(dataDir, 'postgres'))).filter((name) => name.includes('starting'))).toEqual([])
    await server.stop()
  })

  test('starts one server if four processes call it after a crash; no commit is lost', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    await insertOne(first.url)
    await killServer(dataDir)
    const starters = await Promise.all(Array.from({ length: 4 }, () => kit.start({ dataDir })))
    expect(starters.filter(({ report }) => !report.adopted)).toHaveLength(1)
    expect(await countOf(starters[0]?.report.url ?? '', 'payment')).toBe(1)
    await Promise.all(starters.map((starter) => starter.end('SIGKILL')))
    await serverIsGone(dataDir)
  })
})

describe('an embedded server that its starting process owns', () => {
  test('is stopped cleanly by the watchdog when its starting process is killed; no commit is lost', async () => {
    const dataDir = await usedDataDir()
    const starter = await kit.start({ dataDir })
    await insertOne(starter.report.url)
    // An open transaction must not delay the stop.
    const client = await connect(starter.report.url)
    await client.query('BEGIN')
    expect(await starter.end('SIGKILL')).toBe('SIGKILL')
    await serverIsGone(dataDir)
    expect(await readFile(join(dataDir, 'postgres/server.log'), 'utf8')).toContain('database system is shut down')
    const next = await startEmbedded({ dataDir })
    expect(next.adopted).toBe(false)
    expect(await countOf(next.url, 'payment')).toBe(1)
    await next.stop()
  })

  test.each(['exit', 'idle'] as const)(
    'stops when its starting process ends without a stop() call: %s',
    async (how) => {
      const dataDir = await usedDataDir()
      const starter = await kit.start({ dataDir })
      expect(await starter.end(how)).toBe(0)
      await serverIsGone(dataDir)
    },
  )

  test('survives a SIGINT to its starting process’s group, so that the application can use it', async () => {
    const dataDir = await usedDataDir()
    const starter = await kit.start({ dataDir })
    const client = await connect(starter.report.url)
    process.kill(-(starter.process.pid ?? Number.NaN), 'SIGINT')
    expect(await client.query('SELECT pg_sleep(0.2)')).toMatchObject({ rowCount: 1 })
    await client.end()
    expect(await starter.end('stop')).toBe(0)
  })

  test('stops although clients are connected', async () => {
    const dataDir = await usedDataDir()
    const server = await startEmbedded({ dataDir })
    const client = await connect(server.url)
    const ended = new Promise((resolve) => client.once('end', resolve))
    await server.stop()
    await ended
    await expect(embeddedUrl(dataDir)).rejects.toMatchObject({ code: 'EMBEDDED_NOT_RUNNING' })
  })

  test('is stopped by stopEmbedded only with force: true (else EMBEDDED_OWNED)', async () => {
    const dataDir = await usedDataDir()
    const starter = await kit.start({ dataDir })
    await expect(stopEmbedded(dataDir)).rejects.toMatchObject({
      code: 'EMBEDDED_OWNED',
      message: expect.stringContaining(`process ${starter.process.pid}`),
    })
    expect(await embeddedUrl(dataDir)).toBe(starter.report.url)
    expect(await stopEmbedded(dataDir, { force: true })).toBe(true)
    await serverIsGone(dataDir)
    expect(await starter.end('stop')).toBe(0)
  })
})

describe('an embedded server that was killed', () => {
  test('recovers its commits at the next start', async () => {
    const dataDir = await usedDataDir()
    const first = await startEmbedded({ dataDir })
    await insertOne(first.url)
    await killServer(dataDir)
    await first.stop()
    const second = await startEmbedded({ dataDir })
    expect(await countOf(second.url, 'payment')).toBe(1)
    expect(await readFile(join(dataDir, 'postgres/server.log'), 'utf8')).toContain('automatic recovery in progress')
    await second.stop()
  })
})

describe('a detached embedded server', () => {
  test('keeps running after its starting process ends, until stopEmbedded stops it', async () => {
    const dataDir = await usedDataDir()
    const starter = await kit.start({ dataDir, detached: true })
    expect(await starter.end('SIGKILL')).toBe('SIGKILL')
    await insertOne(starter.report.url)

    const adopted = await startEmbedded({ dataDir })
    expect(adopted).toMatchObject({ adopted: true, url: starter.report.url, ownerPid: undefined })
    await adopted.stop()
    expect(await embeddedUrl(dataDir)).toBe(adopted.url)

    expect(await stopEmbedded(dataDir)).toBe(true)
    await serverIsGone(dataDir)
    expect(await stopEmbedded(dataDir)).toBe(false)
  })
})

/** Opens a database of `embedded:FOLDER`, uses it once and ends the process that owns its server. */
async function orphanedDatabase() {
  const dataDir = await usedDataDir()
  const owner = await kit.start({ dataDir })
  const database = openDatabase({ url: `embedded:${dataDir}`, connectionsMax: 2 })
  onTestFinished(async () => {
    await database.close()
    await stopEmbedded(dataDir, { force: true })
  })
  const portOf = async () => {
    const { rows } = await database.as('postgres').query<{ port: number }>('SELECT inet_server_port() AS port')
    return rows[0]?.port
  }
  expect(await portOf()).toBe(owner.report.port)
  await owner.end('exit')
  await serverIsGone(dataDir)
  return { dataDir, port: owner.report.port, portOf }
}

describe('a database of embedded:FOLDER after the end of the process that started its server', () => {
  test('starts the server again, once for all waiting callers', async () => {
    const { dataDir, portOf } = await orphanedDatabase()
    const ports = new Set(await Promise.all(Array.from({ length: 8 }, portOf)))
    expect([...ports]).toEqual([Number(new URL(await embeddedUrl(dataDir)).port)])
  })

  test('finds the server if a third process has started it on another port', async () => {
    const { dataDir, port, portOf } = await orphanedDatabase()
    const taken = createServer((socket) => socket.destroy()).listen(port, '127.0.0.1')
    await once(taken, 'listening')
    onTestFinished(() => void taken.close())
    const third = await kit.start({ dataDir })
    expect(third.report.port).not.toBe(port)
    expect(new Set(await Promise.all(Array.from({ length: 8 }, portOf)))).toEqual(new Set([third.report.port]))
    await third.end('stop')
  })

  test('names the folder and the reason if the server cannot start again (CONNECT_FAILED)', async () => {
    const { dataDir, portOf } = await orphanedDatabase()
    const version = join(dataDir, 'postgres/data/PG_VERSION')
    await writeFile(version, '9\n')
    await expect(portOf()).rejects.toMatchObject({
      code: 'CONNECT_FAILED',
      message: `could not connect to the embedded server of ${dataDir}: EMBEDDED_VERSION_MISMATCH`,
      remedy: expect.not.stringContaining('firewall'),
    })
    await writeFile(version, '18\n')
    expect(await portOf()).toBeGreaterThan(0)
  })
})

test('removeFoldersOfDeadRuns removes the folders of dead test runs only', async () => {
  const starter = await kit.start({ dataDir: await usedDataDir() })
  const deadPid = starter.process.pid
  await starter.end('stop')
  const dead = join(tmpdir(), `symphony-test-${deadPid}-killed`)
  await mkdir(join(dead, 'symphony'), { recursive: true })
  await removeFoldersOfDeadRuns()
  await expect(stat(dead)).rejects.toMatchObject({ code: 'ENOENT' })
  expect((await stat(kit.folder)).isDirectory()).toBe(true)
})

async function killServer(dataDir: string): Promise<void> {
  const pidFile = join(dataDir, 'postgres/data/postmaster.pid')
  process.kill(Number.parseInt(await readFile(pidFile, 'utf8'), 10), 'SIGKILL')
}
