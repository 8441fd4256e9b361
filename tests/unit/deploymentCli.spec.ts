import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, readFile, symlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { builtPath } from '../support/builtPath.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { copyFolder, makeTestFolder, removeTestFolder } from '../support/server.js'

const BIN = fileURLToPath(new URL('../../bin/symphony', import.meta.url))

beforeAll(() => {
  builtPath('libs/cli/main.js')
})

/** Runs the program as users do, with these environment variables only. */
async function runProgram(env: Record<string, string>, ...words: readonly string[]): Promise<CommandOutput> {
  const child = spawn(process.execPath, [BIN, ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  let [stdout, stderr] = ['', '']
  child.stdout.on('data', (chunk) => (stdout += String(chunk)))
  child.stderr.on('data', (chunk) => (stderr += String(chunk)))
  const [exitCode] = await once(child, 'close')
  return { exitCode, stdout, stderr }
}

/** Runs a command in this process, which is faster than starting the program. */
function run(env: Record<string, string>, ...words: readonly string[]): Promise<CommandOutput> {
  return symphony(words, env)
}

async function database(content: 'deployed' | 'empty'): Promise<TestDatabase> {
  const db = await createTestDatabase({ content, countBranches: false })
  onTestFinished(() => db.drop())
  return db
}

describe('on the command line', () => {
  test('deploy and doctor take database and schema from flags', async () => {
    const db = await database('empty')
    const target = ['--database-url', db.url, '--schema', 'Pay "Out" box']
    expect(await runProgram({}, 'deploy', ...target)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('is deployed to the schema Pay "Out" box'),
    })
    expect(await runProgram({}, 'deploy', ...target)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('already'),
    })
    expect(await runProgram({}, 'doctor', ...target)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('is what this release deploys'),
    })
  })

  test('deploy and doctor take database and schema from a file; a flag overrides the schema', async () => {
    const db = await database('empty')
    const folder = await makeTestFolder()
    onTestFinished(() => removeTestFolder(folder))
    const config = join(folder, 'symphony.json')
    await writeFile(config, JSON.stringify({ databaseUrl: db.url, schema: 'filed', leaseSeconds: 30 }))
    expect(await run({}, 'deploy', '--config', config, '--schema', 'flagged')).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('is deployed to the schema flagged.'),
    })
    expect((await run({}, 'deploy', '--config', config)).stdout).toContain('is deployed to the schema filed.')
    expect(await run({}, 'doctor', '--config', config)).toMatchObject({
      exitCode: 0,
      stdout: expect.stringContaining('The schema filed is what this release deploys'),
    })
  })

  test('deploy and doctor take database and schema from the environment', async () => {
    const db = await database('empty')
    const env = { DATABASE_URL: db.url, SYMPHONY_SCHEMA: 'elsewhere' }
    const deployed = await run(env, 'deploy', '--json')
    expect(JSON.parse(deployed.stdout)).toMatchObject({ outcome: 'deployed', schema: 'elsewhere' })
    const examined = await run(env, 'doctor', '--json')
    expect(examined.exitCode).toBe(0)
    expect(JSON.parse(examined.stdout)).toMatchObject({ ok: true, schema: 'elsewhere' })
  })

  test('doctor prints findings as text or JSON and exits with 1; with 0 after deploy --reapply', async () => {
    const db = await database('deployed')
    const env = { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema }
    await db.queryNoRole('DROP INDEX ix_pending_claimable')
    const { exitCode, stdout, stderr } = await run(env, 'doctor')
    expect(exitCode).toBe(1)
    expect(stdout).toContain('INDEX_MISSING')
    expect(stdout).toContain('ix_pending_claimable')
    expect(stdout).toContain('symphony deploy --reapply')
    expect(stderr).toContain('DOCTOR_FOUND_DRIFT')
    const json = await run(env, 'doctor', '--json')
    expect(json.exitCode).toBe(1)
    expect(JSON.parse(json.stdout)).toMatchObject({ ok: false, findings: [{ code: 'INDEX_MISSING' }, {}, {}] })
    expect((await run(env, 'deploy', '--reapply')).exitCode).toBe(0)
    expect((await run(env, 'doctor')).exitCode).toBe(0)
  })

  test('deploy never prints a given password, and keeps the password of an existing login', async () => {
    const db = await database('deployed')
    const env = { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema }
    const name = `cli_${db.name}`
    onTestFinished(async () => void (await db.queryNoRole(`DROP ROLE IF EXISTS ${name}`)))
    const login = ['--create-login', `${name}=executor+readonly`]
    const first = await run({ ...env, SYMPHONY_LOGIN_PASSWORD: 'chosen by me' }, 'deploy', ...login)
    expect(first.stdout).toContain(`The login ${name} was created with the password of SYMPHONY_LOGIN_PASSWORD.`)
    const other = `cli_other_${db.name}`
    onTestFinished(async () => void (await db.queryNoRole(`DROP ROLE IF EXISTS ${other}`)))
    const json = await run(
      { ...env, SYMPHONY_LOGIN_PASSWORD: 'chosen by me' },
      'deploy',
      '--json',
      '--create-login',
      `${other}=executor`,
    )
    expect(`${first.stdout}${first.stderr}${json.stdout}${json.stderr}`).not.toContain('chosen by me')
    const second = await run(env, 'deploy', ...login)
    expect(second.stdout).toContain(`The login ${name} already existed`)
    expect(second.stdout).not.toContain('password')
    const third = await run({ ...env, SYMPHONY_LOGIN_PASSWORD: 'another one' }, 'deploy', ...login)
    expect(third.stdout).toContain(`The login ${name} already existed`)
    expect(third.stdout).toContain(`Its password was not changed. To change it, run \\password ${name} in psql.`)
    const url = new URL(db.url)
    url.username = name
    url.password = 'chosen by me'
    const client = new Client(url.href)
    await client.connect()
    await client.end()
    const twice = await run({ ...env, SYMPHONY_LOGIN_PASSWORD: 'chosen by me' }, 'deploy', ...login, ...login)
    expect(twice.exitCode).toBe(2)
  })

  test('deploy --dry-run prints SQL and nothing else', async () => {
    const db = await database('empty')
    const { exitCode, stdout, stderr } = await run({ DATABASE_URL: db.url }, 'deploy', '--dry-run', '--schema', 'new')
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toMatch(/^BEGIN;[^]*CREATE SCHEMA IF NOT EXISTS "new"[^]*COMMIT;\n$/)
  })

  test.each([
    [3, ['doctor', '--database-url', 'postgres://unknown-user@127.0.0.1:1/none']],
    [3, ['deploy', '--database-url', 'postgres://unknown-user@127.0.0.1:1/none']],
    [2, ['deploy', '--database-url', 'mysql://x']],
    [2, ['deploy', '--database-url', 'postgres://x@127.0.0.1:1/x', '--create-login', 'app=king']],
    [2, ['deploy', '--database-url', 'postgres://x@127.0.0.1:1/x', '--schema', ' ']],
  ])('the exit code is %i for %j', async (exitCode, words) => {
    expect(await run({}, ...words)).toMatchObject({ exitCode })
  })
})

describe('an installed package', () => {
  test('deploys its schema with the packed files only', async () => {
    const db = await database('empty')
    const folder = await makeTestFolder()
    onTestFinished(() => removeTestFolder(folder))
    const root = fileURLToPath(new URL('../../', import.meta.url))
    const installed = join(folder, 'node_modules', 'symphony-pg')
    const { files }: { files: string[] } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'))
    for (const file of ['package.json', ...files]) {
      // Skips patterns, which are no file names, and files that a checkout does not have.
      if (!existsSync(join(root, file))) continue
      await mkdir(dirname(join(installed, file)), { recursive: true })
      await copyFolder(join(root, file), join(installed, file))
    }
    for (const dependency of ['pg', 'commander', 'picocolors']) await linkDependency(root, folder, dependency)
    const child = spawn(process.execPath, [join(installed, 'bin', 'symphony'), 'deploy', '--schema', 'packed'], {
      cwd: folder,
      env: { DATABASE_URL: db.url },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    expect(await once(child, 'close')).toEqual([0, null])
    expect((await run({ DATABASE_URL: db.url }, 'doctor', '--schema', 'packed')).exitCode).toBe(0)
  })
})

describe('symphony start', () => {
  test('uses the given database, and leaves its server running', async () => {
    const db = await database('empty')
    const env = { DATABASE_URL: db.url, SYMPHONY_SCHEMA: db.schema }
    const child = spawn(process.execPath, [BIN, 'start'], { env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    child.stdout.on('data', (chunk) => (output += String(chunk)))
    await expect.poll(() => output, { timeout: 60_000 }).toContain('found it sound')
    expect(output).toContain(db.name)
    expect(output).not.toContain('postgres:')
    child.kill('SIGTERM')
    expect(await once(child, 'close')).toEqual([0, null])
    expect((await db.queryNoRole('SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })
})

/** Links a dependency, which resolves its own dependencies from its real path. */
async function linkDependency(root: string, folder: string, name: string): Promise<void> {
  await symlink(join(root, 'node_modules', name), join(folder, 'node_modules', name))
}
