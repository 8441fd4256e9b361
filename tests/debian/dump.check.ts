import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { expect, test } from 'vitest'
import { checkStart, deploy, doctor } from '../../libs/deployment/index.js'
import { runGuide } from '../../scripts/guides/runGuide.mjs'
import { startPrivateServer, type PostgresVersion } from '../support/server.js'
import { ask } from '../support/standby.js'
import { programsByVersion } from './programs.js'

const SEEDS = join(import.meta.dirname, '../support/guideSeeds')
const FOLDERS = programsByVersion('dump')

test.each(FOLDERS)(
  'PostgreSQL %i: doctor finds no problem in a database that pg_restore restored',
  async (version, bin) => {
    await using server = await disposableServer(version)
    await deploy({ url: server.url })
    const restored = await copyByDump(server.url, bin)
    const { findings } = await doctor({ url: restored })
    expect(findings.filter(({ severity }) => severity !== 'note')).toEqual([])
    expect((await checkStart({ url: restored })).refusals).toEqual([])
  },
)

test.each(FOLDERS)(
  'PostgreSQL %i: the commands of the dump-and-restore guide work and lose no row',
  async (version, bin) => {
    await using server = await disposableServer(version)
    await using target = await disposableServer(version)
    const folder = await mkdtemp(join(tmpdir(), 'symphony-guide-'))
    try {
      const { problems } = await runGuide({
        page: 'docs/operate/dump.md',
        folder,
        serverUrl: server.url,
        env: {
          NEW_URL: target.url,
          SEEDS,
          PATH: [join(folder, 'bin'), bin, process.env['PATH']].join(':'),
        },
      })
      expect(problems).toEqual([])
      expect(await rowsOf(target.url)).toEqual(await rowsOf(server.url))
    } finally {
      await rm(folder, { recursive: true })
    }
  },
)

test.each(FOLDERS)(
  'PostgreSQL %i: doctor reports that a restore over a deployment lost symphony_lease_floor',
  async (version, bin) => {
    await using server = await disposableServer(version)
    await deploy({ url: server.url })
    const client = new Client(server.url)
    await client.connect()
    await client.query(await readFile(join(SEEDS, 'beforeDump.sql'), 'utf8'))
    await client.end()
    const restored = await copyByDump(server.url, bin, { deployFirst: true })
    const { findings } = await doctor({ url: restored })
    expect(findings).toContainEqual(expect.objectContaining({ code: 'LEASE_FLOOR_IS_KEPT', found: '0' }))
  },
)

test.each(FOLDERS)(
  'PostgreSQL %i: doctor and deploy name the remedy for a dump restored without roles',
  async (version, bin) => {
    await using server = await disposableServer(version)
    await using target = await disposableServer(version)
    await deploy({ url: server.url })
    const dump = promisify(execFile)(join(bin, 'pg_dump'), [server.url], { maxBuffer: 100_000_000 })
    const psql = execFile(join(bin, 'psql'), ['--quiet', '--output=/dev/null', target.url])
    psql.stdin?.end((await dump).stdout)
    await once(psql, 'close')
    const { findings } = await doctor({ url: target.url })
    expect(findings.map(({ code }) => code)).toEqual(['RESTORED_WITHOUT_ROLES'])
    await expect(deploy({ url: target.url })).rejects.toMatchObject({ code: 'RESTORED_WITHOUT_ROLES' })
  },
)

/** Reads every row of every table, as text because XML has no infinite times. */
async function rowsOf(url: string): Promise<unknown> {
  return ask(
    url,
    `SELECT json_object_agg(t.tablename, query_to_xml(format('SELECT t::text AS "row" FROM symphony.%I t ORDER BY 1',
       t.tablename), true, false, '')::text ORDER BY t.tablename) AS answer
     FROM pg_tables t WHERE t.schemaname = 'symphony'`,
  )
}

async function disposableServer(version: PostgresVersion): Promise<{ readonly url: string } & AsyncDisposable> {
  const server = await startPrivateServer({ version })
  return { url: server.url, [Symbol.asyncDispose]: server.remove }
}

/** Dumps a database and restores it into a new one on the same server. Returns its URL. */
async function copyByDump(url: string, bin: string, { deployFirst = false } = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-dump-'))
  try {
    const file = join(folder, 'dump')
    const run = promisify(execFile)
    await run(join(bin, 'pg_dump'), ['--format=custom', `--file=${file}`, url])
    await ask(url, 'CREATE DATABASE restored TEMPLATE template0')
    const restored = new URL(url)
    restored.pathname = '/restored'
    if (deployFirst) await deploy({ url: restored.href })
    const restoring = run(join(bin, 'pg_restore'), [`--dbname=${restored.href}`, file])
    // Over a deployment, pg_restore reports existing objects, continues and exits with an error.
    await (deployFirst ? restoring.catch(() => {}) : restoring)
    return restored.href
  } finally {
    await rm(folder, { recursive: true })
  }
}
