import { describe, expect, it } from 'vitest'
import { httpRail, loadRail, type HttpOptions } from '../../libs/rails/index.js'

const HTTPS = 'https://rail.example/payments'
const SIGNING = { keyId: 'k', secret: '0123456789abcdef' }

function declare(http: object, declared: object = {}) {
  // Untyped options, as a JavaScript file would pass them.
  const given: HttpOptions = JSON.parse('{}')
  return httpRail({ type: 'http', onUnknown: 'resend', ...declared, http: Object.assign(given, http) })
}

describe('httpRail', () => {
  it.each([
    ['HTTPS', { url: HTTPS }],
    ['plain HTTP to this machine', { url: 'http://localhost:4000/pay' }],
    ['plain HTTP to 127.0.0.1', { url: 'http://127.0.0.1:4000/pay' }],
    ['plain HTTP to 127.8.9.1', { url: 'http://127.8.9.1/pay' }],
    ['plain HTTP to ::1', { url: 'http://[::1]:4000/pay' }],
    ['plain HTTP to another machine with allowPlainHttp', { url: 'http://rail.internal/pay', allowPlainHttp: true }],
    ['the reference in the path', { url: `${HTTPS}/{reference}` }],
    ['the compact reference in a status address', { url: HTTPS, status: { url: `${HTTPS}?id={compactReference}` } }],
    ['a secret of 16 bytes', { url: HTTPS, signing: SIGNING }],
    ['a secret in bytes', { url: HTTPS, signing: { keyId: 'k', secret: new Uint8Array(16) } }],
    ['a response of 1 byte', { url: HTTPS, responseBytesMax: 1 }],
    ['a response of 16 MiB', { url: HTTPS, responseBytesMax: 16_777_216 }],
  ])('accepts %s', (_, http) => {
    expect(() => loadRail(declare(http))).not.toThrow()
  })

  it.each([
    ['no address', {}, 'http.url: expected text'],
    ['a path', { url: '/payments' }, 'http.url: expected an absolute address'],
    ['another protocol', { url: 'ftp://rail.example' }, 'http.url: expected an address that begins with https://'],
    [
      'plain HTTP to another machine',
      { url: 'http://rail.example' },
      'http.url: expected https: plain HTTP to another machine',
    ],
    ['plain HTTP to the address of another machine', { url: 'http://10.0.0.1/pay' }, 'http.url: expected https'],
    [
      'plain HTTP to a host name that begins with 127.0.0.1',
      { url: 'http://127.0.0.1.rail.example' },
      'http.url: expected https',
    ],
    [
      'plain HTTP to a host name that begins with localhost',
      { url: 'http://localhost.rail.example' },
      'http.url: expected https',
    ],
    ['credentials in the address', { url: 'https://me:pw@rail.example' }, 'http.url: expected no credentials'],
    [
      'the reference as a host',
      { url: 'https://{reference}.example' },
      'http.url: expected {reference} and {compactReference} in the path',
    ],
    ['another method', { url: HTTPS, method: 'GET' }, 'http.method: expected POST or PUT'],
    ['a misspelt field', { url: HTTPS, header: {} }, 'http."header": unknown; did you mean headers?'],
    [
      'the header Idempotency-Key',
      { url: HTTPS, headers: { 'IDEMPOTENCY-KEY': 'x' } },
      'IDEMPOTENCY-KEY is written by Symphony',
    ],
    [
      'the header Symphony-Not-After',
      { url: HTTPS, headers: { 'Symphony-Not-After': 'x' } },
      'Symphony-Not-After is written by Symphony',
    ],
    ['an invalid pointer', { url: HTTPS, pointers: { reference: 'id' } }, 'http.pointers.reference: expected a JSON'],
    ['a misspelt pointer', { url: HTTPS, pointers: { refrence: '/id' } }, 'did you mean reference?'],
    ['an invalid status', { url: HTTPS, statusOutcomes: { 99: 'success' } }, 'http.statusOutcomes, a status: expected'],
    [
      'a status by family',
      { url: HTTPS, statusOutcomes: { '5xx': 'retryable' } },
      'http.statusOutcomes, a status: expected',
    ],
    [
      'an unknown outcome',
      { url: HTTPS, statusOutcomes: { 503: 'retry' } },
      'http.statusOutcomes.503: expected success',
    ],
    [
      'a text as allowPlainHttp',
      { url: HTTPS, allowPlainHttp: 'false' },
      'http.allowPlainHttp: expected true or false',
    ],
    ['a text as keepAlive', { url: HTTPS, keepAlive: 'false' }, 'http.keepAlive: expected true or false, got string'],
    ['a body that is not a function', { url: HTTPS, body: {} }, 'http.body: expected a function, got object'],
    [
      'an unknown outcome of a state',
      { url: HTTPS, status: { url: `${HTTPS}/{reference}`, states: { pointer: '/s', outcomes: { DONE: 'paid' } } } },
      'http.status.states.outcomes.DONE: expected success, terminal, absent or unknown',
    ],
    [
      'states without outcomes',
      { url: HTTPS, status: { url: `${HTTPS}/{reference}`, states: { pointer: '/s' } } },
      'http.status.states.outcomes: expected an object, got undefined',
    ],
    [
      'a misspelt field of states',
      { url: HTTPS, status: { url: `${HTTPS}/{reference}`, states: { pointer: '/s', outcome: {}, outcomes: {} } } },
      'http.status.states."outcome": unknown; did you mean outcomes?',
    ],
    [
      'a short secret',
      { url: HTTPS, signing: { keyId: 'k', secret: '0123456789abcde' } },
      'http.signing.secret: expected at least 16 bytes',
    ],
    ['no secret', { url: HTTPS, signing: { keyId: 'k' } }, 'http.signing.secret: expected at least 16 bytes'],
    [
      'a key id with a comma',
      { url: HTTPS, signing: { ...SIGNING, keyId: 'a,b' } },
      'http.signing.keyId: expected no comma',
    ],
    ['a response of 0 bytes', { url: HTTPS, responseBytesMax: 0 }, 'http.responseBytesMax: expected a whole number'],
    ['a response beyond 16 MiB', { url: HTTPS, responseBytesMax: 16_777_217 }, 'http.responseBytesMax: expected'],
    ['no connection', { url: HTTPS, connectionsMax: 0 }, 'http.connectionsMax: expected a whole number from 1 to'],
    [
      'a status address without the reference',
      { url: HTTPS, status: { url: HTTPS } },
      'http.status.url: expected {reference} or {compactReference} in the address',
    ],
    [
      'a status address over plain HTTP',
      { url: HTTPS, status: { url: 'http://rail.example/{reference}' } },
      'http.status.url: expected https',
    ],
    [
      'a misspelt field of status',
      { url: HTTPS, status: { url: `${HTTPS}/{reference}`, state: {} } },
      'did you mean states?',
    ],
  ])('refuses %s, naming rail and field', (_, http, message) => {
    expect(() => declare(http)).toThrow(message)
    expect(() => declare(http)).toThrow('rail "http", ')
  })

  it('refuses onUnknown inquire without http.status', () => {
    expect(() => declare({ url: HTTPS }, { onUnknown: 'inquire' })).toThrow(
      'http.status: expected an address to inquire at',
    )
  })

  it('refuses an invalid declaration when it is loaded', () => {
    expect(() => loadRail(declare({ url: HTTPS }, { timeoutMs: 0 }))).toThrow('rail "http", timeoutMs')
    expect(() => loadRail(declare({ url: HTTPS }, { timeoutMS: 5 }))).toThrow('did you mean timeoutMs?')
  })

  it('has queryStatus only if http.status is given', () => {
    expect(loadRail(declare({ url: HTTPS })).queryStatus).toBeUndefined()
    expect(loadRail(declare({ url: HTTPS, status: { url: `${HTTPS}/{reference}` } })).queryStatus).toBeDefined()
  })
})
