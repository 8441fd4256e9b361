import { spawnSync } from 'node:child_process'
import { chmod, mkdir, readdir, readFile, utimes, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EmbeddedError, startEmbedded } from '../../embedded/index.js'
import { openServer } from '../../libs/cli/database/target.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

async function freshFolder(): Promise<{ readonly folder: string; readonly dataDir: string }> {
  const folder = await makeTestFolder()
  onTestFinished(() => removeTestFolder(folder))
  return { folder, dataDir: join(folder, 'symphony') }
}

interface Script {
  readonly initdb?: string
  readonly postgres?: string
}

/** Writes fake programs that report version 18 and run these scripts. A real server cannot be made to fail so. */
async function pretend(folder: string, { initdb = INITDB_OK, postgres = FOREVER }: Script): Promise<string> {
  const binaries = join(folder, 'pretended')
  await mkdir(join(binaries, 'bin'), { recursive: true })
  const version = `[ "$1" = --version ] && echo 'postgres (PostgreSQL) 18.4' && exit\n`
  for (const [name, body] of Object.entries({ initdb, postgres: version + postgres })) {
    await writeFile(join(binaries, 'bin', name), `#!/bin/sh\n${body}\n`)
    await chmod(join(binaries, 'bin', name), 0o755)
  }
  return binaries
}

// A loop instead of `exec sleep`, because the tests search the process list for the path of the script.
const FOREVER = 'while :; do sleep 0.02; done'
const INITDB_OK = `for arg; do case $arg in --pgdata=*) echo 18 > "\${arg#--pgdata=}/PG_VERSION";; esac; done`

/** Returns whether any process has this text in its command line. */
function runs(text: string): boolean {
  return spawnSync('ps', ['-A', '-ww', '-o', 'command=']).stdout.toString().includes(text)
}

async function failureOf(start: Promise<unknown>): Promise<EmbeddedError> {
  const error = await start.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  if (!(error instanceof EmbeddedError)) throw new Error('expected an EmbeddedError', { cause: error })
  return error
}

describe('a failing startEmbedded', () => {
  test('shows the log of the server (EMBEDDED_START_FAILED)', async () => {
    const { dataDir } = await freshFolder()
    const error = await failureOf(startEmbedded({ dataDir, settings: { shared_buffers: 'plenty' } }))
    expect(error.code).toBe('EMBEDDED_START_FAILED')
    expect(error.logTail).toContain('invalid value for parameter "shared_buffers": "plenty"')
    expect(error.message).toContain(error.logTail)
    // A failed start leaves the folder usable: a start without the wrong setting succeeds.
    await (await startEmbedded({ dataDir })).stop()
  })

  test('shows the output of initdb and leaves no partial cluster (EMBEDDED_INIT_FAILED)', async () => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(folder, { initdb: 'echo "no space left on this device" >&2; exit 1' })
    const error = await failureOf(startEmbedded({ dataDir, binaries }))
    expect(error.code).toBe('EMBEDDED_INIT_FAILED')
    expect(error.logTail).toBe('no space left on this device')
    expect(await readdir(dataDir)).toEqual([])
  })

  test('times out while initdb runs (EMBEDDED_START_TIMEOUT)', async () => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(folder, { initdb: FOREVER })
    const error = await failureOf(startEmbedded({ dataDir, binaries, startTimeoutMs: 300 }))
    expect(error.code).toBe('EMBEDDED_START_TIMEOUT')
    expect(await readdir(dataDir)).toEqual([])
  })

  test('times out while the server starts, and kills the server', async () => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(folder, {
      postgres: `echo "still thinking"; ${FOREVER}`,
    })
    const error = await failureOf(startEmbedded({ dataDir, binaries, startTimeoutMs: 400 }))
    expect(error.code).toBe('EMBEDDED_START_TIMEOUT')
    expect(error.logTail).toBe('still thinking')
    expect(runs(folder)).toBe(false)
  })

  test.each(['initdb', 'postgres'])('is aborted at once by its signal during %s', async (program) => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(folder, { [program]: `touch "${folder}/reached"; ${FOREVER}` })
    await chmod(folder, 0o777)
    const controller = new AbortController()
    const start = startEmbedded({ dataDir, binaries, signal: controller.signal })
    await expect.poll(() => readdir(folder)).toContain('reached')
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(start).rejects.toBe(reason)
    expect(runs(folder)).toBe(false)
  })

  test('removes old folders of a killed initdb and keeps recent ones', async () => {
    const { folder, dataDir } = await freshFolder()
    await mkdir(join(dataDir, 'unfinished-old/data'), { recursive: true })
    await mkdir(join(dataDir, 'unfinished-young'))
    await utimes(join(dataDir, 'unfinished-old'), 0, 0)
    const binaries = await pretend(folder, { initdb: 'exit 1' })
    await failureOf(startEmbedded({ dataDir, binaries }))
    expect(await readdir(dataDir)).toEqual(['unfinished-young'])
  })

  test('lists the searched folders and a remedy if there is no PostgreSQL', async () => {
    const { folder, dataDir } = await freshFolder()
    const error = await failureOf(startEmbedded({ dataDir, binaries: join(folder, 'empty') }))
    expect(error.code).toBe('EMBEDDED_NO_POSTGRES')
    expect(error.message).toContain(join(folder, 'empty', 'bin'))
    expect(error.remedy).toContain('DATABASE_URL')
  })

  test('refuses a program path that the shell of initdb would run as a command', async () => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(join(folder, '$(date)'), {})
    const error = await failureOf(startEmbedded({ dataDir, binaries }))
    expect(error.message).toContain('in its path')
  })

  test('refuses a PostgreSQL that is too old', async () => {
    const { folder, dataDir } = await freshFolder()
    const binaries = await pretend(folder, { postgres: '' })
    await writeFile(join(binaries, 'bin/postgres'), '#!/bin/sh\necho "postgres (PostgreSQL) 14.9"\n')
    const error = await failureOf(startEmbedded({ dataDir, binaries }))
    expect(error.code).toBe('EMBEDDED_NO_POSTGRES')
    expect(error.message).toContain('PostgreSQL 14, expected 15 or newer')
  })
})

test('an embedded server inherits neither the environment nor the working folder of its parent', async () => {
  const { folder, dataDir } = await freshFolder()
  await chmod(folder, 0o777)
  const binaries = await pretend(folder, { postgres: `{ pwd; env; } > "${folder}/seen"; exit 1` })
  process.env['PGOPTIONS'] = '-c fsync=off'
  onTestFinished(() => void delete process.env['PGOPTIONS'])
  await failureOf(startEmbedded({ dataDir, binaries }))
  const [cwd, ...environment] = (await readFile(join(folder, 'seen'), 'utf8')).trim().split('\n')
  expect(cwd).toBe('/')
  // The shell that runs the script adds four variables of its own.
  const names = environment.map((entry) => entry.split('=', 1)[0] ?? '').toSorted()
  expect(names.filter((name) => !['_', 'OLDPWD', 'PWD', 'SHLVL'].includes(name))).toEqual(['LC_ALL', 'PATH'])
})

describe('openServer', () => {
  const START = { searchPath: undefined, signal: new AbortController().signal }

  test('uses the given address, and starts and stops nothing', async () => {
    const { dataDir } = await freshFolder()
    const url = 'postgres://app@db.example/payments'
    const server = await openServer({ databaseUrl: url, dataDir }, START)
    expect(server).toMatchObject({ embedded: undefined, url })
    await server.stop()
    await expect(readdir(dataDir)).rejects.toMatchObject({ code: 'ENOENT' })
  })

  test('refuses a blank address (INVALID_ARGUMENT)', async () => {
    const { dataDir } = await freshFolder()
    await expect(openServer({ databaseUrl: ' ', dataDir }, START)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' })
  })

  test('starts the embedded server if there is no address', async () => {
    const { dataDir } = await freshFolder()
    const server = await openServer({ databaseUrl: undefined, dataDir }, START)
    expect(server).toMatchObject({ embedded: { version: 18, adopted: false } })
    await server.stop()
  })
})

test.each([
  [{ dataDir: '' }, 'INVALID_ARGUMENT'],
  [{ dataDir: 'x', port: 80 }, 'ARGUMENT_OUT_OF_RANGE'],
  [{ dataDir: 'x', startTimeoutMs: 1 }, 'ARGUMENT_OUT_OF_RANGE'],
  [{ dataDir: 'x', settings: { port: '5432' } }, 'INVALID_ARGUMENT'],
  [{ dataDir: 'x', settings: { 'fsync=off -c x': '1' } }, 'INVALID_ARGUMENT'],
])('startEmbedded refuses the options %j before it starts anything', async (options, code) => {
  await expect(startEmbedded(options)).rejects.toMatchObject({ code })
})
