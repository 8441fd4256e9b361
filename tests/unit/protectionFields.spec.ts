import { randomBytes, randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { InvalidArgumentError, type JsonObject } from '../../libs/core/index.js'
import { canonicalJson } from '../../libs/core/index.js'
import { keyIdOf, decryptField, encryptField, unwrapKey, wrapKey } from '../../libs/protection/envelope.js'
import { KeyRing, readKeyRing } from '../../libs/protection/index.js'
import { redactFields } from '../../libs/rails/fields/redactFields.js'
import {
  callRail,
  holdsCardNumber,
  refuseCardNumbers,
  maskPayload,
  maskPayloadText,
  validatePayload,
} from '../../libs/rails/index.js'
import { PAYABLE, railOf, railRequest } from '../support/railRequest.js'

function rulesFor(fields: object, subject?: string) {
  return railOf(
    () => ({ outcome: 'success', reference: 'r' }),
    subject === undefined ? { fields } : { fields, subject },
  )
}

describe('field classes', () => {
  test.each<[string, object, string?]>([
    ['a list', ['/a']],
    ['a field that is not a pointer', { destination: 'masked' }],
    ['the whole payload', { '': 'masked' }],
    ['an empty key', { '/': 'masked' }],
    ['an unknown class', { '/a': 'secret' }],
    ['a field inside another', { '/a': 'encrypted', '/a/b': 'public' }],
    ['a star over another field', { '/a/*': 'masked', '/a/b': 'public' }],
    ['a subject that is encrypted', { '/a': 'encrypted' }, '/a/id'],
    ['a subject with a star', {}, '/a/*'],
  ])('are refused at load: %s', (_name, fields, subject) => {
    expect(() => rulesFor(fields, subject)).toThrow(InvalidArgumentError)
  })

  test('are refused with a suggestion if a class is misspelt', () => {
    expect(() => rulesFor({ '/a': 'encryptd' })).toThrow('did you mean "encrypted"?')
  })
})

describe('maskPayload', () => {
  const { fields } = rulesFor({
    '/iban': 'masked',
    '/who': 'encrypted',
    '/lines/*/memo': 'forbidden',
    '/a~1b': 'masked',
  })
  const payload: JsonObject = {
    iban: 'DE89370400440532013000',
    amount: '1',
    who: 'symphony.sealed.v1.x',
    lines: [{ memo: 'short', n: 1 }, { memo: { deep: [1234567890123] } }],
    'a/b': true,
  }

  test('masks each field by its class and keeps the other fields', () => {
    expect(maskPayload(payload, fields)).toEqual({
      masked: true,
      payload: {
        iban: '••••3000',
        amount: '1',
        who: '[encrypted]',
        lines: [{ memo: '••••', n: 1 }, { memo: { deep: ['••••'] } }],
        'a/b': '••••',
      },
    })
  })

  test('keeps the exact text if no field is masked; a payload that it cannot parse becomes a mask', () => {
    const exact = '{"n": 1.50}'
    expect(maskPayloadText(exact, fields)).toEqual({ text: exact, masked: false })
    expect(maskPayloadText('{"iban": 0.1234567890123456789}', fields)).toEqual({ text: '••••', masked: true })
    expect(maskPayloadText('{"iban": 1e400}', rulesFor({ '/x': 'public' }).fields).masked).toBe(false)
  })
})

describe('a card number in a payload', () => {
  test.each([
    '4111111111111111',
    '4111 1111 1111 1111',
    '4111-1111-1111-1111',
    'card 4111 1111 1111 1111 12/29, thanks',
    '3782.822463.10005',
    '4111\u200B1111\u200B1111\u200B1111',
    '４１１１１１１１１１１１１１１１',
    '6304000000000000000',
    '4222222222222',
    `0000000000000000000000004111111111111111`,
    'DE89370400440532013001 is no IBAN, and its digits are searched',
    '1'.repeat(257),
  ])('is found in %j', (text) => {
    expect(holdsCardNumber(text)).toBe(true)
  })

  test.each([
    '4111111111111112',
    '411111111111111',
    'DE89370400440532013000',
    'to DE89 3704 0044 0532 0130 00, thanks',
    '2026-11-15 12:30:45.123456',
    'order 1234 of 2026',
    '',
    '422222222222',
    '+49 170 1234567',
  ])('is not found in %j', (text) => {
    expect(holdsCardNumber(text)).toBe(false)
  })

  test('is refused anywhere in a forbidden field, even as a number or key, but not in other fields', () => {
    const { fields } = rulesFor({ '/notes': 'forbidden' })
    for (const notes of [
      '4111111111111111',
      4111111111111111,
      [{ x: ['4111 1111 1111 1111'] }],
      { 4111111111111111: 1 },
    ]) {
      const refused = () => refuseCardNumbers({ notes }, fields)
      expect(refused).toThrow(expect.objectContaining({ code: 'CARD_NUMBER_REFUSED' }))
      expect(refused).toThrow(/^payload\/notes: (?!.*4111)/)
    }
    expect(() => refuseCardNumbers({ notes: 'none', other: '4111111111111111' }, fields)).not.toThrow()
  })

  test('does not reach the rail (CARD_NUMBER_REFUSED)', async () => {
    const rail = rulesFor({ '/memo': 'forbidden' })
    expect(await validatePayload(rail, { ...PAYABLE, memo: '4111 1111 1111 1111' })).toMatchObject({
      ok: false,
      code: 'CARD_NUMBER_REFUSED',
      retryable: false,
    })
  })
})

describe('text that a rail returns', () => {
  const payload = { password: 'pass"wörd hunter2', pin: 739, open: 'fine', deep: { list: ['s3cret-α'] } }
  const { fields } = rulesFor({ '/password': 'encrypted', '/pin': 'masked', '/deep': 'forbidden' })

  test('loses values of classified fields, whether plain or in JSON, URL encoding or Base64', () => {
    const text = [
      payload.password,
      JSON.stringify(payload),
      encodeURIComponent(payload.password),
      Buffer.from(payload.password).toString('base64'),
      'pin739!',
      's3cret-α',
    ].join(' | ')
    const kept = redactFields(payload, fields)(text)
    for (const secret of ['hunter2', 'hunter', '739', 's3cret', 'cGFzc']) expect(kept).not.toContain(secret)
    expect(kept).toContain('fine')
  })

  test('is redacted before it is shortened, so that no part of a value is left', () => {
    const kept = redactFields(payload, fields)(`${'x'.repeat(1_990)}${payload.password}`)
    expect(kept).not.toMatch(/pass/)
  })

  test.each([
    [
      'an adapter that throws an error with the password',
      () => Promise.reject(new Error(`refused ${payload.password}`)),
    ],
    [
      'an adapter that answers with the payload',
      () => ({ outcome: 'terminal' as const, code: 's3cret-α', message: JSON.stringify(payload) }),
    ],
  ])('shows no classified field in the result of %s', async (_how, dispatch) => {
    const rail = railOf(dispatch, { fields: { '/password': 'encrypted', '/deep': 'forbidden', '/pin': 'masked' } })
    const verdict = JSON.stringify(await callRail(rail, railRequest({ payload })))
    expect(verdict).toContain('[withheld]')
    for (const secret of ['hunter2', 's3cret', '739']) expect(verdict).not.toContain(secret)
  })
})

describe('an encrypted field', () => {
  const key = { id: randomUUID(), secret: randomBytes(32) }
  const place = { instructionId: 'i', idempotencyKey: 'k', pointer: '/a' }

  test('decrypts to its text; only the same text in the same context gives equal ciphertext', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const sealed = encryptField(key, place, text)
        expect(decryptField(key, place, sealed)).toBe(text)
        expect(encryptField(key, place, text)).toBe(sealed)
        expect(keyIdOf(sealed)).toBe(key.id)
      }),
      { numRuns: 20 },
    )
    const all = [
      encryptField(key, place, 'x'),
      encryptField(key, place, 'y'),
      encryptField(key, { ...place, pointer: '/b' }, 'x'),
      encryptField(key, { ...place, instructionId: 'j' }, 'x'),
      encryptField(key, { ...place, idempotencyKey: 'l' }, 'x'),
      encryptField({ ...key, secret: randomBytes(32) }, place, 'x'),
    ]
    // The nonces must differ: two texts under one nonce would reveal the authentication key.
    const nonces = all.map((sealed) =>
      Buffer.from(sealed.split('.').at(-1)!, 'base64url').subarray(0, 12).toString('hex'),
    )
    expect(new Set(nonces).size).toBe(all.length)
  })

  test('does not decrypt in another context, with another key or with one bit changed', () => {
    const sealed = encryptField(key, place, 'DE89370400440532013000')
    expect(decryptField(key, { ...place, pointer: '/b' }, sealed)).toBeUndefined()
    expect(decryptField(key, { ...place, instructionId: 'j' }, sealed)).toBeUndefined()
    expect(decryptField(key, { ...place, idempotencyKey: 'l' }, sealed)).toBeUndefined()
    expect(decryptField({ ...key, secret: randomBytes(32) }, place, sealed)).toBeUndefined()
    expect(decryptField({ ...key, id: randomUUID() }, place, sealed)).toBeUndefined()
    const [head, body] = [sealed.slice(0, sealed.lastIndexOf('.') + 1), sealed.split('.').at(-1)!]
    const bytes = Buffer.from(body, 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit += 1) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3]! ^= 1 << (bit & 7)
      expect(decryptField(key, place, head + changed.toString('base64url'))).toBeUndefined()
    }
    expect(keyIdOf(`${sealed}=`)).toBeUndefined()
    expect(keyIdOf(`${sealed}.x`)).toBeUndefined()
    expect(keyIdOf(head)).toBe(key.id)
    expect(decryptField(key, place, head)).toBeUndefined()
  })

  test('decrypts in the redrives of its payment', () => {
    const sealed = encryptField(key, place, 'x')
    expect(decryptField(key, { ...place, idempotencyKey: 'k~redrive~2' }, sealed)).toBe('x')
  })

  test('has a wrapped key that unwraps for its subject and id only', () => {
    const master = { id: 'm', secret: randomBytes(32) }
    const wrapped = wrapKey(master, key, 'alice')
    expect(wrapped).toMatch(/^[\w-]{80}$/)
    expect(unwrapKey(master, key.id, 'alice', wrapped)).toEqual(key)
    expect(unwrapKey(master, key.id, 'bob', wrapped)).toBeUndefined()
    expect(unwrapKey(master, randomUUID(), 'alice', wrapped)).toBeUndefined()
    expect(unwrapKey({ ...master, secret: randomBytes(32) }, key.id, 'alice', wrapped)).toBeUndefined()
    expect(unwrapKey(master, key.id, 'alice', '')).toBeUndefined()
  })

  test('has one canonical JSON text per value, whatever the order of object keys', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(JSON.parse(JSON.stringify(value)))
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
      }),
      { numRuns: 100 },
    )
    expect(canonicalJson({ b: [{ d: 1, c: null }], a: 'x' })).toBe('{"a":"x","b":[{"c":null,"d":1}]}')
    const given = new Map<string, unknown>([
      ['b', [1n, [], {}, undefined]],
      ['a', { z: undefined, y: 'x' }],
    ])
    expect(canonicalJson(given, 2)).toBe(JSON.stringify({ a: { y: 'x' }, b: ['1', [], {}, null] }, null, 2))
  })
})

describe('a set of master keys', () => {
  const secret = randomBytes(32)

  test('has a current key and finds the other keys by id', async () => {
    const ring = readKeyRing({
      current: 'b',
      keys: { a: secret.toString('base64'), b: randomBytes(32).toString('base64') },
    })
    expect((await ring.current()).id).toBe('b')
    expect((await ring.find('a'))?.secret).toEqual(secret)
    expect(await ring.find('c')).toBeUndefined()
  })

  test.each<[string, unknown]>([
    ['a list', []],
    ['no current key', { keys: { a: secret.toString('base64') } }],
    ['a current key that is missing', { current: 'b', keys: { a: secret.toString('base64') } }],
    ['a key of 31 bytes', { current: 'a', keys: { a: secret.subarray(1).toString('base64') } }],
    ['a key that is not base64', { current: 'a', keys: { a: `${secret.toString('base64')}!` } }],
    ['a further field', { current: 'a', keys: { a: secret.toString('base64') }, other: 1 }],
    ['a name with a space', { current: 'a b', keys: { 'a b': secret.toString('base64') } }],
  ])('is refused with an error that shows no key: %s', (_name, content) => {
    const read = () => readKeyRing(JSON.parse(JSON.stringify(content)))
    expect(read).toThrow(/^(?!.*[A-Za-z0-9+/]{40})/)
  })

  test('refuses a key id used twice', () => {
    expect(
      () =>
        new KeyRing(
          [
            { id: 'a', secret },
            { id: 'a', secret },
          ],
          'a',
        ),
    ).toThrow('same id')
  })
})
