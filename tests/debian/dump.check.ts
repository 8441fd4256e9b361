import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { checkStart, deploy, doctor } from '../../libs/deployment/index.js'
import { startPrivateServer, type PostgresVersion } from '../support/server.js'
import { ask } from '../support/standby.js'
import { programsOf } from './programs.js'

const FOLDERS = Object.entries(programsOf('dump')).map(
  ([version, folder]) => [Number(version) as PostgresVersion, folder] as const,
)

test.each(FOLDERS)('PostgreSQL %i: a dump that pg_restore restores leaves doctor green', async (version, bin) => {
  await using server = await disposableServer(version)
  await deploy({ url: server.url })
  const restored = await copyByDump(server.url, bin)
  const { findings } = await doctor({ url: restored })
  expect(findings.filter(({ severity }) => severity !== 'mention')).toEqual([])
  expect((await checkStart({ url: restored })).refusals).toEqual([])
})

async function disposableServer(version: PostgresVersion): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = await startPrivateServer({ version })
  return { url: server.url, [Symbol.asyncDispose]: server.remove }
}

/** Dumps a database and restores it into a new one beside it. Returns the address of the new one. */
async function copyByDump(url: string, bin: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-dump-'))
  try {
    const file = join(folder, 'dump')
    const run = promisify(execFile)
    await run(join(bin, 'pg_dump'), ['--format=custom', `--file=${file}`, url])
    await ask(url, 'CREATE DATABASE restored TEMPLATE template0')
    const restored = new URL(url)
    restored.pathname = '/restored'
    await run(join(bin, 'pg_restore'), ['--exit-on-error', `--dbname=${restored.href}`, file])
    return restored.href
  } finally {
    await rm(folder, { recursive: true })
  }
}
