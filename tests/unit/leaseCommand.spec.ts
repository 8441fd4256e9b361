import { beforeAll, describe, expect, test } from 'vitest'
import { acquireLease, releaseLease } from '../../libs/lease/index.js'
import { symphony, type CommandOutput } from '../support/commandLine.js'
import { createTestDatabase, useTestDatabase } from '../support/database.js'
import { expireResource } from '../support/leaseRows.js'

const db = await useTestDatabase()
let url: string
beforeAll(async () => {
  url = (await db.createLogin('watcher', { roles: ['symphony_readonly'] })).url
})

function command(...words: readonly string[]): Promise<CommandOutput> {
  return symphony(['leases', 'list', ...words], { DATABASE_URL: url, SYMPHONY_SCHEMA: db.schema })
}

async function hold(resource: string, owner: string): Promise<() => Promise<boolean>> {
  const executor = db.as('symphony_executor')
  const grant = await acquireLease(executor, { resource, owner, durationMs: 60_000, context: { secret: 'CANARY' } })
  return () => releaseLease(executor, { resource, owner, leaseId: grant!.leaseId })
}

describe('symphony leases list', () => {
  test('prints that no lease is held', async () => {
    await using empty = await createTestDatabase()
    const env = { DATABASE_URL: empty.url, SYMPHONY_SCHEMA: empty.schema }
    expect(await symphony(['leases', 'list'], env)).toEqual({ exitCode: 0, stdout: 'No lease is held.\n', stderr: '' })
    expect((await symphony(['leases', 'list', '--json'], env)).stdout).toBe('{"leases":[]}\n')
  })

  test('prints the holder of each resource, as text and as JSON, and no secret', async () => {
    await hold('b-held', 'alice')
    await hold('a-expired', 'bob')
    await expireResource(db, 'a-expired')
    const release = await hold('c-released', 'carol')
    await release()

    const { stdout, stderr, exitCode } = await command()
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 })
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^a-expired EXPIRED at 20\S+Z, was held by bob \(token 1\)$/),
      expect.stringMatching(/^b-held HELD by alice since 20\S+Z, at least until 20\S+Z \(token 1\)$/),
      '',
    ])
    expect((await command('--all')).stdout).toMatch(/^c-released RELEASED by carol at 20\S+Z \(token 1\)$/m)

    const json = (await command('--json', '--all')).stdout
    const { leases }: { leases: object[] } = JSON.parse(json)
    expect(leases).toMatchObject([
      { resource: 'a-expired', state: 'EXPIRED', owner: 'bob', fencingToken: '1' },
      { resource: 'b-held', state: 'HELD' },
      { resource: 'c-released', state: 'RELEASED' },
    ])
    expect(json).not.toMatch(/CANARY|leaseId|lease_id/)
  })

  test('is explained by --help', async () => {
    const { exitCode, stdout } = await symphony(['leases', '--help'])
    expect(exitCode).toBe(0)
    expect(stdout).toContain('named leases and their holders')
    expect(stdout).toContain('symphony leases list --all')
  })
})
