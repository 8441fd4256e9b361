import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { redact } from '../../libs/rails/index.js'

describe('redact', () => {
  it.each([
    ['a card number', 'card 4111111111111111 declined', '4111111111111111'],
    ['a card number with spaces', 'card 4111 1111 1111 1111 declined', '1111 1111'],
    ['a card number with dashes', 'card 5500-0000-0000-0004 declined', '5500-0000'],
    ['a card number with wide gaps', 'card 4111  1111\t1111\u00a01111', '1111'],
    ['a card number with long dashes', 'card 4111–1111–1111–1111', '1111'],
    ['a card number with dots', '3782.822463.10005', '822463'],
    ['a card number of 13 digits', 'pan=4222222222222', '4222222222222'],
    ['a card number of 19 digits', '6304000000000000000', '6304000000'],
    ['a card number behind other digits', 'order 17 4111111111111111', '4111111111'],
    ['a card number with spaces behind other digits', 'order 17 4111 1111 1111 1111', '1111 1111'],
    ['a card number next to other digits', '994111111111111111', '4111111111'],
    ['a card number in full-width digits', '４１１１１１１１１１１１１１１１', '１１１１'],
    ['a card number with invisible characters inside', '4111\u200b1111\u200b1111\u200b1111', '4111'],
    ['a card number in JSON', '{"pan":"4111111111111111"}', '4111111111111111'],
    ['an IBAN', 'to DE89370400440532013000 failed', 'DE893704'],
    ['an IBAN with spaces', 'to DE89 3704 0044 0532 0130 00 failed', '0532'],
    ['an IBAN in lower case', 'to gb29nwbk60161331926819', 'nwbk6016'],
    ['a mistyped IBAN', 'DE88370400440532013000 is invalid', 'DE883704'],
    ['a short IBAN', 'NO9386011117947', '86011117947'],
    ['an IBAN full of letters', 'MT84MALT011000012345MTLCAST001S', '011000012345'],
    ['a bearer token', 'Bearer abc.def-ghi_jkl', 'abc.def'],
    ['an Authorization header', 'Authorization: Digest username="alice", response="6629fae4"', 'alice'],
    ['an authorization in JSON', '{"authorization":"Basic dXNlcjpwYXNz"}', 'dXNlcjpwYXNz'],
    ['a cookie', 'Set-Cookie: session=abcdef123456; HttpOnly', 'abcdef123456'],
    ['an API key header', 'x-api-key: k_live_12345', 'k_live_12345'],
    ['a password', 'login failed: password=hunter2&user=bob', 'hunter2'],
    ['a password in JSON', '{"password": "hun\\"ter2", "user": "bob"}', 'ter2'],
    ['a password in quotes', "pwd='hunter2 with spaces' rest", 'with spaces'],
    ['a client secret', 'client_secret=s3cr3t-value', 's3cr3t-value'],
    ['an access token', 'access_token: ya29.a0AfH6SMBx', 'ya29'],
    ['an API key', 'apiKey=sk_test_4eC39HqLyjWDarjtT1zdp7dc', 'sk_test'],
    ['a security code', 'cvv: 123', '123'],
    ['credentials of an address', 'https://user:hunter2@rail.example/pay', 'hunter2'],
    ['credentials of a database', 'postgres://app:p%40ss@db:5432/pay', 'p%40ss'],
    [
      'a JSON Web Token without a name before it',
      'got eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl',
      'eyJhbGci',
    ],
    ['a private key', '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----', 'MIIEvQ'],
    ['a private key cut short', '-----BEGIN EC PRIVATE KEY-----\nMIIEvQIBADANBg', 'MIIEvQ'],
    ['an account number', 'account 123456789 is closed', '123456789'],
    ['a phone number', 'to +4915123456789', '15123456789'],
    ['a phone number with spaces', 'to +49 151 2345 6789', '2345'],
  ])('removes %s', (_, text, canary) => {
    expect(redact(text)).not.toContain(canary)
    expect(redact(text)).toMatch(/\[(card|iban|phone|digits|secret|token|credentials|private key)\]/)
  })

  it.each([
    'the account is closed',
    'HTTP 503 Service Unavailable, try again at 2026-10-17T12:30:45.123Z',
    'reference 018f6b1e-7c9a-7b3e-9f00-012345678901 is in progress',
    'reference 12345678-1234-1234-1234-123456789012 is in progress',
    'worker host:21772:a7b67c8d-2828-4965-80ac-df53557afa70 has no handler',
    'limit of 10000.00 EUR exceeded by 12.50',
    'ECONNREFUSED: connect ECONNREFUSED 127.0.0.1:4000',
    'code AB12 not listed',
    'https://rail.example/payments?page=2',
    'no token was given',
  ])('keeps "%s"', (text) => {
    expect(redact(text)).toBe(text)
  })

  it('keeps every UUID', () => {
    fc.assert(
      fc.property(fc.uuid(), (id) => {
        expect(redact(`worker host:1:${id} failed`)).toContain(id)
      }),
      { numRuns: 1_000 },
    )
  })

  it('replaces each secret by its type in brackets and keeps the rest', () => {
    expect(redact('card 4111111111111111 of DE89370400440532013000 with password=x was refused')).toBe(
      'card [card] of [iban] with password=[secret] was refused',
    )
  })

  it('limits the length and replaces characters that cannot be stored', () => {
    expect(redact('x'.repeat(5_000))).toHaveLength(2_000)
    expect(redact('y'.repeat(500), 128)).toHaveLength(128)
    expect(redact('a\u0000b\ud800c')).toBe('a\uFFFDb\uFFFDc')
    expect(redact('  ')).toBe('(no text)')
  })

  it('leaves no part of a card number that the read limit truncates', () => {
    for (let digitsRead = 1; digitsRead < 16; digitsRead += 1) {
      const [begin, end] = ['-----BEGIN PRIVATE KEY-----', '-----END PRIVATE KEY----- ']
      // Redaction shortens the key to a few words, so that only the read limit cuts the number.
      const key = 'A'.repeat(16_384 - digitsRead - begin.length - end.length)
      expect(redact(`${begin}${key}${end}4111111111111111`)).toMatch(/^\[private key\]( \[\w+\])?…$/)
    }
  })

  it('removes a card number anywhere in a text', () => {
    const around = fc
      .string({ unit: 'grapheme', maxLength: 40 })
      .filter((text) => !/[\dA-Za-z+]/.test(text.normalize('NFKC')))
    fc.assert(
      fc.property(around, around, fc.constantFrom('4111111111111111', '5555555555554444'), (before, after, card) => {
        expect(redact(`${before}${card}${after}`)).not.toContain(card)
      }),
    )
  })

  it('takes under 5 s of CPU time for hostile input', () => {
    const hostile = [
      '1'.repeat(100_000),
      '1 '.repeat(50_000),
      'password='.repeat(12_000),
      'a:'.repeat(50_000),
      '+1'.repeat(50_000),
      'AA00 '.repeat(20_000),
      '"\\'.repeat(50_000),
    ]
    // Measures the CPU time of this process, which other load on the machine does not change.
    const before = process.cpuUsage()
    for (const text of hostile) redact(text)
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000)
  })
})
