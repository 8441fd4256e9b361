import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { openHttpFixture, problemOf, type HttpFixture } from '../support/httpFixture.js'

let db: TestDatabase
let fixture: HttpFixture
let folder: string
const PAGE = '<!doctype html><title>Symphony</title>'
beforeAll(async () => {
  db = await createTestDatabase()
  folder = await mkdtemp(join(tmpdir(), 'symphony-dashboard-'))
  const built = join(folder, 'built')
  await mkdir(join(built, 'assets'), { recursive: true })
  await writeFile(join(built, 'index.html'), PAGE)
  await writeFile(join(built, 'assets', 'main-Ab3dEf9h.js'), 'export {}')
  await writeFile(join(folder, 'secret.txt'), 'CANARY')
  fixture = await openHttpFixture(db, { dashboardFolder: built })
})
afterAll(async () => {
  await fixture.close()
  await db.drop()
  await rm(folder, { recursive: true })
})

const HTML = { accept: 'text/html,*/*' }

/** Returns the raw answer for a path. `fetch` would normalise the path. */
function raw(path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(fixture.address)
    const socket = connect(Number(port), hostname, () => {
      socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`)
    })
    let answer = ''
    socket.on('data', (chunk) => (answer += chunk.toString()))
    socket.once('close', () => resolve(answer))
    socket.once('error', reject)
  })
}

describe('dashboard files', () => {
  test.each(['/', '/payments', '/payments/01981f0e', '/holds?x=1'])(
    'are served without a key: the page at %s',
    async (path) => {
      const response = await fetch(`${fixture.address}${path}`, { headers: HTML })
      expect([response.status, await response.text()]).toEqual([200, PAGE])
      expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8')
      expect(response.headers.get('cache-control')).toBe('no-cache')
      expect(response.headers.get('content-security-policy')).toContain("default-src 'self'")
    },
  )

  test('answer HEAD / with headers and no body, and need no key', async () => {
    const response = await fetch(fixture.address, { method: 'HEAD' })
    expect([response.status, await response.text()]).toEqual([200, ''])
    expect(response.headers.get('content-length')).toBe(String(PAGE.length))
  })

  test('are cached for ever if the name has a hash; the page is revalidated by its ETag', async () => {
    const asset = await fetch(`${fixture.address}/assets/main-Ab3dEf9h.js`)
    expect(asset.headers.get('content-type')).toBe('text/javascript; charset=utf-8')
    expect(asset.headers.get('cache-control')).toContain('immutable')
    const page = await fetch(`${fixture.address}/`)
    const again = await fetch(`${fixture.address}/`, { headers: { 'if-none-match': page.headers.get('etag') ?? '' } })
    expect([again.status, await again.text()]).toEqual([304, ''])
  })

  test.each([
    '/../secret.txt',
    '/%2e%2e/secret.txt',
    '/assets/../../secret.txt',
    '/..%2fsecret.txt',
    '/assets/',
    '//secret.txt',
  ])('do not include anything outside the dashboard folder: %s', async (path) => {
    const answer = await raw(path)
    expect(answer).toMatch(/^HTTP\/1\.1 (401|404|400) /)
    expect(answer).not.toContain('CANARY')
  })

  test('never replace the API: an unknown route is 404, or 401 without a key', async () => {
    expect(await problemOf(await fixture.call('/v1/nothing', { headers: HTML }))).toMatchObject({ code: 'NOT_FOUND' })
    expect((await fetch(`${fixture.address}/v1/nothing`, { headers: HTML })).status).toBe(401)
    expect((await fetch(`${fixture.address}/missing.js`)).status).toBe(401)
    expect((await fetch(`${fixture.address}/payments`, { method: 'POST', headers: HTML })).status).toBe(401)
  })

  test('are absent on a server without a dashboard folder', async () => {
    const bare = await openHttpFixture(db)
    onTestFinished(() => bare.close())
    expect((await fetch(`${bare.address}/`, { headers: HTML })).status).toBe(401)
  })
})
