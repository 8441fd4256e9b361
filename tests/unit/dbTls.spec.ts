import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDatabase, TlsError, type DatabaseOptions, type TlsMode } from '../../libs/db/index.js'
import { resolveTls, parseConnectionUrl } from '../../libs/db/connectionTarget.js'
import { makeCertificate, type Certificate } from '../support/certificate.js'
import { DbFixture } from '../support/dbFixture.js'
import { TlsProxy } from '../support/tlsProxy.js'

const decide = (url: string, mode?: TlsMode) =>
  resolveTls(parseConnectionUrl('url', url), mode === undefined ? {} : { mode })

describe('resolveTls', () => {
  test.for([
    'postgres://u@db.example.org/x',
    'postgres://u@db.example.org/x?sslmode=require',
    'postgres://u@db.example.org/x?sslmode=verify-ca',
    'postgres://u@db.example.org/x?sslmode=verify-full',
    'postgres://u@10.0.0.1/x',
    'postgres://u@[fe80::1]/x',
    'postgres://u@localhost.example.org/x',
    'postgres://u@127.0.0.1.example.org/x',
    'postgres://u@localhost/x?sslmode=verify-full',
    'postgres://u@localhost/x?sslrootcert=system',
    'postgres://u@localhost/x?sslnegotiation=direct',
  ])('verifies the certificate for %s', (url) => {
    expect(decide(url)).toMatchObject({ rejectUnauthorized: true })
  })

  test.for([
    'postgres://u@localhost/x',
    'postgres://u@LOCALHOST/x',
    'postgres://u@/x',
    'postgres://app:secret@/x',
    'postgres://u@127.0.0.1/x',
    'postgres://u@127.8.8.8/x',
    'postgres://u@[::1]/x',
    'postgres://u@%2Fvar%2Frun%2Fpostgresql/x',
    'postgres://u@/x?host=/var/run/postgresql',
    'postgres://u@localhost/x?sslmode=disable',
    'postgres://u@localhost/x?sslmode=prefer',
  ])('needs no TLS for %s, which stays on this machine', (url) => {
    expect(decide(url)).toBe(false)
  })

  test.for(['disable', 'allow', 'prefer', 'no-verify'])('refuses sslmode=%s to a remote host', (sslmode) => {
    expect(() => decide(`postgres://u@db.example.org/x?sslmode=${sslmode}`)).toThrow(TlsError)
  })

  test('follows the mode that the code sets: plaintext, unverified or verify', () => {
    expect(decide('postgres://u@db.example.org/x', 'plaintext')).toBe(false)
    expect(decide('postgres://u@db.example.org/x?sslmode=disable', 'plaintext')).toBe(false)
    expect(decide('postgres://u@db.example.org/x?sslmode=no-verify', 'unverified')).toEqual({
      rejectUnauthorized: false,
    })
    expect(decide('postgres://u@localhost/x', 'verify')).toEqual({ rejectUnauthorized: true })
  })

  test('refuses an option that contradicts a URL with sslmode=verify-full or require', () => {
    expect(() => decide('postgres://u@db.example.org/x?sslmode=verify-full', 'plaintext')).toThrow(/^tls.mode: /)
    expect(() => decide('postgres://u@db.example.org/x?sslmode=require', 'unverified')).toThrow(/^tls.mode: /)
  })

  test('refuses misspelt values and a missing sslrootcert file', () => {
    expect(() => decide('postgres://u@db.example.org/x?sslmode=verify')).toThrow(/^sslmode: expected disable, allow/)
    expect(() => decide('postgres://u@db.example.org/x?sslmode=constructor')).toThrow(/^sslmode: /)
    expect(() => decide('postgres://u@localhost/x?sslnegotiation=fast')).toThrow(/^sslnegotiation: /)
    // @ts-expect-error -- a configuration file may hold this
    expect(() => decide('postgres://u@db.example.org/x', 'none')).toThrow(/^tls.mode: /)
    expect(() => decide('postgres://u@db.example.org/x?sslrootcert=/no/such/file')).toThrow(
      /sslrootcert cannot be read/,
    )
  })
})

describe('a TLS connection', () => {
  let fixture: DbFixture
  let authority: Certificate
  const proxies: TlsProxy[] = []

  beforeAll(async () => {
    fixture = await DbFixture.set()
    authority = makeCertificate({ name: 'Test Authority' })
  })
  afterAll(async () => {
    await fixture.close()
    await Promise.all(proxies.map((proxy) => proxy.close()))
  })

  async function connectTo(certificate: Certificate | undefined, tls: DatabaseOptions['tls'] = {}): Promise<unknown> {
    const proxy = await TlsProxy.before(fixture.url(), certificate)
    proxies.push(proxy)
    const url = new URL(fixture.url(proxy.port))
    url.hostname = 'localhost'
    const database = openDatabase({ url: url.href, tls: { mode: 'verify', ...tls } })
    try {
      return (await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows
    } catch (error) {
      return error
    } finally {
      await database.close()
    }
  }

  test('accepts a certificate of a trusted authority for this host', async () => {
    const certificate = makeCertificate({ name: 'localhost', issuer: authority })
    expect(await connectTo(certificate, { ca: authority.cert })).toEqual([{ one: 1 }])
  })

  test('accepts a certificate only for the expected server name', async () => {
    const certificate = makeCertificate({ name: 'db.example.org', issuer: authority })
    expect(await connectTo(certificate, { ca: authority.cert, serverName: 'db.example.org' })).toEqual([{ one: 1 }])
    const another = await connectTo(certificate, { ca: authority.cert, serverName: 'db.example.com' })
    expect(another).toMatchObject({ code: 'TLS_REFUSED', message: expect.stringMatching(/for another name/) })
  })

  test('trusts the authority in the file that sslrootcert names', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'symphony-tls-'))
    const file = join(folder, 'root.crt')
    await writeFile(file, authority.cert)
    const proxy = await TlsProxy.before(fixture.url(), makeCertificate({ name: 'localhost', issuer: authority }))
    proxies.push(proxy)
    const url = new URL(fixture.url(proxy.port))
    url.hostname = 'localhost'
    url.searchParams.set('sslrootcert', file)
    expect((await fixture.open({ url: url.href }).queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([
      { one: 1 },
    ])
    await rm(folder, { recursive: true })
  })

  test.for([
    ['self-signed', () => makeCertificate({ name: 'localhost' }), {}, /self-signed/],
    ['of an unknown authority', () => makeCertificate({ name: 'localhost', issuer: authority }), {}, /not trusted/],
    [
      'expired',
      () => makeCertificate({ name: 'localhost', issuer: authority, notAfter: new Date(Date.now() - 1_000) }),
      { withAuthority: true },
      /has expired/,
    ],
    [
      'for another name',
      () => makeCertificate({ name: 'db.example.org', issuer: authority }),
      { withAuthority: true },
      /for another name/,
    ],
  ] as const)(
    'refuses a certificate that is %s, and names the reason (TLS_REFUSED)',
    async ([, make, trust, reason]) => {
      const error = await connectTo(make(), 'withAuthority' in trust ? { ca: authority.cert } : {})
      expect(error).toBeInstanceOf(TlsError)
      expect(error).toMatchObject({ code: 'TLS_REFUSED', disposition: 'fatal', message: expect.stringMatching(reason) })
    },
  )

  test('refuses a server without TLS', async () => {
    const error = await connectTo(undefined)
    expect(error).toBeInstanceOf(TlsError)
    expect(error).toMatchObject({ message: expect.stringMatching(/offers no TLS/) })
  })

  test('verifies the certificate even if NODE_TLS_REJECT_UNAUTHORIZED is 0', async () => {
    process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0'
    try {
      expect(await connectTo(makeCertificate({ name: 'localhost' }))).toBeInstanceOf(TlsError)
    } finally {
      delete process.env['NODE_TLS_REJECT_UNAUTHORIZED']
    }
  })

  test('accepts a self-signed certificate if the code sets the mode unverified', async () => {
    expect(await connectTo(makeCertificate({ name: 'localhost' }), { mode: 'unverified' })).toEqual([{ one: 1 }])
  })
})
