import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { startEmbedded } from '../../embedded/index.js'
import { makeTestFolder, removeTestFolder } from '../support/server.js'

/**
 * Tests PG_GRANDPARENT_PID, which makes PostgreSQL ignore the pid of a stale lock file. If the variable named a live
 * server of the folder, a second server would start there. The server here is a script that records the variable.
 */

let dataDir: string
let folder: string
let binaries: string

beforeEach(async () => {
  folder = await makeTestFolder()
  await chmod(folder, 0o777)
  dataDir = join(folder, 'symphony')
  binaries = join(folder, 'pretended')
  await script('initdb', `for arg; do case $arg in --pgdata=*) echo 18 > "\${arg#--pgdata=}/PG_VERSION";; esac; done`)
  await script(
    'postgres',
    `[ "$1" = --version ] && echo 'postgres (PostgreSQL) 18.4' && exit
     echo "\${PG_GRANDPARENT_PID-unset}" > "${folder}/past"; exit 1`,
  )
  await startEmbedded({ dataDir, binaries }).catch(() => {})
  return () => removeTestFolder(folder)
})

async function script(name: string, body: string): Promise<string> {
  const path = join(binaries, 'bin', name)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, `#!/bin/sh\n${body}\n`)
  await chmod(path, 0o755)
  return path
}

/** Starts a server with this pid in the lock file. Returns the PG_GRANDPARENT_PID that the server gets, or "unset". */
async function ignoringPidFile(pid: number): Promise<string> {
  await writeFile(join(dataDir, 'postgres/data/postmaster.pid'), `${pid}\n${dataDir}\n0\n5432\n\n\n\nready\n`)
  await startEmbedded({ dataDir, binaries, startTimeoutMs: 5_000 }).catch(() => {})
  return (await readFile(join(folder, 'past'), 'utf8')).trim()
}

async function running(file: string, ...args: readonly string[]): Promise<number> {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  return child.pid ?? Number.NaN
}

const STAY = 'echo here; while :; do sleep 0.05; done'

test('startEmbedded makes PostgreSQL ignore a recorded pid of another program', async () => {
  const pid = await running('sh', '-c', STAY)
  expect(await ignoringPidFile(pid)).toBe(String(pid))
})

test('startEmbedded makes PostgreSQL ignore a recorded pid of a server in another folder', async () => {
  const other = await script('other/postgres', STAY)
  const pid = await running(other, '-D', '/another/folder', '-c', 'port=5433')
  expect(await ignoringPidFile(pid)).toBe(String(pid))
})

test('startEmbedded lets PostgreSQL check a recorded pid of a server whose folder is unknown', async () => {
  const other = await script('other/postgres', STAY)
  expect(await ignoringPidFile(await running(other, '-D', 'data'))).toBe('unset')
})

test('startEmbedded lets PostgreSQL check a recorded pid whose process has ended', async () => {
  const child = spawn('true')
  await once(child, 'exit')
  expect(await ignoringPidFile(child.pid ?? Number.NaN)).toBe('unset')
})

test('startEmbedded adopts a live server of the same folder instead of ignoring its pid', async () => {
  const other = await script('other/postgres', STAY)
  const pid = await running(other, '-D', join(dataDir, 'postgres/data'), '-c', 'port=5432')
  expect(await ignoringPidFile(pid)).toBe('unset')
  expect(await startEmbedded({ dataDir, binaries })).toMatchObject({ adopted: true, port: 5432 })
})
