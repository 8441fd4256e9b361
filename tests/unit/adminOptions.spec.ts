import { describe, expect, test } from 'vitest'
import { ApiKeys, deploy, doctor, openLedger, Vault } from '../../libs/entry/admin.js'
import { createTestSymphony } from '../../libs/testing/index.js'

/** Address without a listener. A call with I/O would fail with another error. */
const url = 'postgres://symphony@127.0.0.1:1/none'
const login = { name: 'app', role: 'ingest' }

describe('an unknown option', () => {
  test.each<[string, (options: never) => unknown, unknown, string]>([
    ['deploy', deploy, { url, dryrun: true }, '"dryrun": unknown; did you mean dryRun?'],
    ['deploy of a login', deploy, { url, createLogins: [login] }, 'createLogins."role": unknown; did you mean roles?'],
    ['doctor', doctor, { url, ful: true }, '"ful": unknown; did you mean full?'],
    ['openLedger', openLedger, { exportfolder: '.' }, '"exportfolder": unknown; did you mean exportFolder?'],
    ['ApiKeys', (options) => new ApiKeys(options), { url, shcema: 'pay' }, '"shcema": unknown; did you mean schema?'],
    ['Vault', (options) => new Vault(options), { url, shcema: 'pay' }, '"shcema": unknown; did you mean schema?'],
    [
      'ApiKeys.create',
      (request) => new ApiKeys({ url }).create(request),
      { scopes: ['read'], owner: 'alice', participant: ['acme'] },
      '"participant": unknown; did you mean participants?',
    ],
    ['createTestSymphony', createTestSymphony, { serverURL: url }, '"serverURL": unknown; did you mean serverUrl?'],
  ])('is refused by %s before any I/O', async (_, verb, options, message) => {
    const calling = async () => Reflect.apply(verb, undefined, [options])
    await expect(calling()).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message })
  })
})

test.each<[string, (options: never) => unknown]>([
  ['deploy', deploy],
  ['doctor', doctor],
  ['openLedger', openLedger],
  ['ApiKeys', (options) => new ApiKeys(options)],
  ['Vault', (options) => new Vault(options)],
])('an admin function refuses a URL in place of its options: %s', async (_, verb) => {
  const calling = async () => Reflect.apply(verb, undefined, [url])
  await expect(calling()).rejects.toMatchObject({ message: 'options: expected an object, got string' })
})

test('deploy refuses an undefined url and suggests embedded:FOLDER for development', async () => {
  await expect(Reflect.apply(deploy, undefined, [{ url: undefined }])).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message:
      'url: expected postgres://user:password@host:port/database, got undefined; ' +
      'for development, embedded:FOLDER starts a server',
  })
})
