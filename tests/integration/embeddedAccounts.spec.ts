import { chmod, chown, lstat, mkdir, readdir, readFile, readlink, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { startEmbedded, stopEmbedded } from '../../embedded/index.js'
import { copyFolder, createStoppedServer, makeTestFolder, removeTestFolder, testBinaries } from '../support/server.js'
import { makeFolderOf, ordinaryAccount, StarterKit } from '../support/starterProcess.js'

const isRoot = process.getuid?.() === 0
let kit: StarterKit

beforeAll(async () => {
  kit = await StarterKit.unpack()
  return () => kit.remove()
})

async function freshFolder(): Promise<string> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  return folder
}

async function answers(url: string): Promise<boolean> {
  const client = new Client(url)
  await client.connect()
  await client.query('SELECT 1')
  await client.end()
  return true
}

/** Copies the shipped package as npm unpacks it: without the links that an install script would create. */
async function packageWithoutLinks(folder: string): Promise<string> {
  const native = join(folder, 'native')
  await copyFolder(kit.binaries, native)
  for (const { target } of await linksOf(native)) await rm(join(folder, target))
  return native
}

async function linksOf(native: string): Promise<readonly { readonly target: string }[]> {
  const links: readonly { readonly target: string }[] = JSON.parse(
    await readFile(join(native, 'pg-symlinks.json'), 'utf8'),
  )
  return links
}

describe('an embedded server of an ordinary user', () => {
  test('runs under the account of that user', async () => {
    const account = await ordinaryAccount()
    const home = await makeFolderOf(account, join(await freshFolder(), 'symphony'))
    await chmod(home, 0o700)
    const starter = await kit.start({ dataDir: home }, account)
    expect(starter.report).toMatchObject({ version: 18, adopted: false })
    expect(starter.report.uid).not.toBe(0)
    expect((await stat(join(home, 'postgres/data'))).uid).toBe(starter.report.uid)
    expect((await stat(join(home, 'postgres/password'))).mode & 0o777).toBe(0o600)
    expect(await answers(starter.report.url)).toBe(true)
    await starter.end('stop')

    // As root, the second start uses the account that owns the cluster. For another user this is a normal start.
    const visit = await startEmbedded({ dataDir: home, binaries: kit.binaries })
    expect(await answers(visit.url)).toBe(true)
    expect((await stat(join(home, 'postgres/data/postmaster.pid'))).uid).toBe(starter.report.uid)
    await visit.stop()
  })

  test('refuses a cluster of another user (EMBEDDED_DATA_DIR)', async () => {
    const folder = await freshFolder()
    const dataDir = join(folder, 'symphony')
    await createStoppedServer(dataDir)
    // Without root the test cannot change its user, so a folder without permissions stands for a foreign cluster.
    if (!isRoot) await chmod(join(dataDir, 'postgres'), 0o000)
    const { report } = await kit.start({ dataDir }, await ordinaryAccount())
    if (!isRoot) await chmod(join(dataDir, 'postgres'), 0o700)
    expect(report.error?.code).toBe('EMBEDDED_DATA_DIR')

    // Root cannot use a cluster that root owns. An ordinary user cannot chown it (EPERM).
    const given = await chown(join(dataDir, 'postgres/data'), 0, 0)
      .then(
        () => startEmbedded({ dataDir }),
        (error: unknown) => error,
      )
      .catch((error: unknown) => error)
    expect(given).toMatchObject({ code: isRoot ? 'EMBEDDED_DATA_DIR' : 'EPERM' })
    await rm(dataDir, { recursive: true })
  })

  test('runs from a copy of the package if the package is read-only and lacks its symbolic links', async () => {
    const folder = await freshFolder()
    await chmod(folder, 0o755)
    const account = await ordinaryAccount()
    const binaries = await packageWithoutLinks(folder)
    await chmod(join(binaries, 'lib'), 0o555)
    onTestFinished(() => chmod(join(binaries, 'lib'), 0o755))
    const dataDir = await makeFolderOf(account, join(folder, 'symphony'))

    const first = await kit.start({ dataDir, binaries }, account)
    expect(first.report.error).toBeUndefined()
    expect(await answers(first.report.url)).toBe(true)
    await first.end('stop')
    const copies = (await readdir(dataDir)).filter((name) => name.startsWith('binaries-'))
    expect(copies).toHaveLength(1)
    for (const { target } of await linksOf(binaries)) {
      await expect(lstat(join(folder, target))).rejects.toMatchObject({ code: 'ENOENT' })
      expect((await lstat(join(dataDir, copies[0] ?? '', target))).isSymbolicLink()).toBe(true)
    }
    // A second start must not copy the package again.
    const made = (await stat(join(dataDir, copies[0] ?? ''))).ctimeMs
    await (await kit.start({ dataDir, binaries }, account)).end('stop')
    expect((await stat(join(dataDir, copies[0] ?? ''))).ctimeMs).toBe(made)
  })
})

test('startEmbedded creates symbolic links that are missing in the PostgreSQL package', async () => {
  const folder = await freshFolder()
  await chmod(folder, 0o755)
  const binaries = await packageWithoutLinks(folder)
  const dataDir = join(folder, 'symphony')
  const server = await startEmbedded({ dataDir, binaries })
  expect(await answers(server.url)).toBe(true)
  for (const { target } of await linksOf(binaries)) {
    expect((await lstat(join(folder, target))).isSymbolicLink()).toBe(true)
  }
  expect((await readdir(dataDir)).filter((name) => name.startsWith('binaries-'))).toEqual([])
})

test('an embedded server without the package uses a PostgreSQL of the system or of PATH', async () => {
  const dataDir = join(await freshFolder(), 'symphony')
  const options = { dataDir, binaries: undefined, searchPath: `relative:/nowhere:${join(testBinaries(16), 'bin')}` }
  const starter = await kit.start(options)
  expect(starter.report.error).toBeUndefined()
  expect(starter.report.version).toBeGreaterThanOrEqual(15)
  expect(await answers(starter.report.url)).toBe(true)
  await starter.end('stop')
})

describe('an embedded server in a project folder of mode 0700', () => {
  test('has its cluster and binaries in outsideDir if root starts it, else in the project', async () => {
    const folder = await freshFolder()
    const project = join(folder, 'project')
    await mkdir(project, { mode: 0o700 })
    const binaries = await packageWithoutLinks(project)
    const options = { dataDir: join(project, 'symphony'), binaries, outsideDir: join(folder, 'outside') }
    onTestFinished(async () => void (await stopEmbedded(options.dataDir, { force: true }).catch(() => {})))

    const first = await startEmbedded(options)
    expect(await answers(first.url)).toBe(true)
    await first.stop()
    expect(await readdir(options.dataDir)).toEqual([isRoot ? 'outside' : 'postgres'])
    if (!isRoot) return

    const moved = await readlink(join(options.dataDir, 'outside'))
    expect((await readdir(moved)).map((name) => name.replace(/-.*/, '')).toSorted()).toEqual(['binaries', 'postgres'])
    expect((await stat(join(moved, 'postgres/password'))).mode & 0o777).toBe(0o600)

    // Start, adopt and stop find the moved cluster through the data folder.
    const second = await startEmbedded({ ...options, detached: true })
    expect(second.url).toBe(first.url)
    expect(await startEmbedded(options)).toMatchObject({ adopted: true, url: first.url })
    expect(await stopEmbedded(options.dataDir)).toBe(true)

    // A missing cluster is an error. A new empty database in its place would hide the loss.
    await rm(moved, { recursive: true })
    await expect(startEmbedded(options)).rejects.toMatchObject({ code: 'EMBEDDED_DATA_DIR' })
    expect(await readdir(join(folder, 'outside'))).toEqual([])

    // Removing the data folder allows a new cluster.
    await rm(options.dataDir, { recursive: true })
    const third = await startEmbedded(options)
    expect(third.url).not.toBe(first.url)
    await third.stop()
  })
})
