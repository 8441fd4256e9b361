import { describe, expect, test } from 'vitest'
import { declareOutboxRails, OutboxRelayer } from '../../libs/outbox/index.js'
import { loadRails, type FieldClasses } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'

const db = await useTestDatabase()

interface RailRow {
  readonly money: boolean
  readonly fields: FieldClasses
  readonly declared_by: string
  readonly declared_login: string
  readonly first_declared_at: Date
  readonly last_declared_at: Date
  readonly served_at: Date | null
}

async function recorded(railType: string): Promise<RailRow | undefined> {
  const { rows } = await db.queryNoRole<RailRow>('SELECT * FROM outbox_rails WHERE rail_type = $1', [railType])
  return rows[0]
}

const railsOf = (type: string, fields: FieldClasses = {}, money = true) =>
  loadRails([
    { type, onUnknown: 'resend', money, fields, dispatch: () => ({ outcome: 'success' as const, reference: 'ref' }) },
  ])

const declare = (type: string, fields: FieldClasses, { money = true, by = 'worker-1', serving = true } = {}) =>
  declareOutboxRails(db.as('symphony_executor'), railsOf(type, fields, money).values(), by, { serving })

describe('a declared rail', () => {
  test('is recorded with its field classes, its money flag, and the process that declared it', async () => {
    await declare('sepa', { '/destination': 'masked', '/customer/name': 'encrypted' })
    const row = await recorded('sepa')
    expect(row).toMatchObject({
      money: true,
      fields: { '/destination': 'masked', '/customer/name': 'encrypted' },
      declared_by: 'worker-1',
      served_at: row!.last_declared_at,
    })
    expect(row!.declared_login).not.toBe('')
  })

  test('keeps the strictest class of each field, in any order of declarations', async () => {
    await declare('conflict', { '/a': 'public', '/b': 'masked', '/c': 'forbidden', '/d': 'encrypted', '/e': 'masked' })
    await declare('conflict', { '/a': 'masked', '/b': 'forbidden', '/c': 'encrypted', '/d': 'public', '/f': 'masked' })
    expect(await recorded('conflict')).toMatchObject({
      fields: {
        '/a': 'masked',
        '/b': 'forbidden',
        '/c': 'encrypted',
        '/d': 'encrypted',
        '/e': 'masked',
        '/f': 'masked',
      },
    })
    await declare('conflict', {})
    expect(await recorded('conflict')).toMatchObject({ fields: { '/a': 'masked', '/d': 'encrypted' } })
  })

  test('keeps money: true once a process declared it, whatever later declarations say', async () => {
    await declare('topic', {}, { money: false })
    expect(await recorded('topic')).toMatchObject({ money: false, fields: {} })
    await declare('topic', {}, { money: true })
    await declare('topic', {}, { money: false })
    expect(await recorded('topic')).toMatchObject({ money: true })
  })

  test('gets served_at only from a process that serves it', async () => {
    await declare('served', {}, { by: 'api', serving: false })
    expect(await recorded('served')).toMatchObject({ declared_by: 'api', served_at: null })
    await declare('served', {}, { by: 'worker-2' })
    const { served_at: servedAt } = (await recorded('served'))!
    expect(servedAt).toBeInstanceOf(Date)
    await declare('served', {}, { by: 'api', serving: false })
    const row = await recorded('served')
    expect(row).toMatchObject({ declared_by: 'api', served_at: servedAt })
    expect(row!.last_declared_at.getTime()).toBeGreaterThan(row!.first_declared_at.getTime())
  })
})

test('a worker declares its rails at its first runOnce() or its first heartbeat after start()', async () => {
  const round = new OutboxRelayer(db.database, railsOf('round', { '/memo': 'forbidden' }), {
    workerId: 'round-1',
    listen: false,
  })
  await round.runOnce()
  expect(await recorded('round')).toMatchObject({ declared_by: 'round-1', fields: { '/memo': 'forbidden' } })

  const worker = new OutboxRelayer(db.database, railsOf('beat'), { workerId: 'beat-1', listen: false })
  await worker.start()
  await worker.stop()
  const row = await recorded('beat')
  expect(row).toMatchObject({ declared_by: 'beat-1' })
  expect(row!.served_at).toBeInstanceOf(Date)
})

test.for([
  ['a class that does not exist', '{"/memo": "secret"}'],
  ['a class that is not text', '{"/memo": 7}'],
  ['a field that is not a JSON pointer', '{"memo": "masked"}'],
  ['a pointer with a bare tilde', '{"/a~b": "masked"}'],
  ['a pointer that is 33 keys deep', JSON.stringify({ ['/a'.repeat(33)]: 'masked' })],
  ['a list instead of an object', '["/memo"]'],
] as const)('a declaration with %s is refused (22023)', async ([, fields]) => {
  await expect(db.queryNoRole(`SELECT declare_outbox_rail('refused', true, $1, 'w')`, [fields])).rejects.toMatchObject({
    code: '22023',
  })
  expect(await recorded('refused')).toBeUndefined()
})

function twoHundredFields(from: number): FieldClasses {
  return Object.fromEntries(Array.from({ length: 200 }, (_, index) => [`/f${from + index}`, 'masked' as const]))
}

test('declarations of one rail cannot add up to more than 1000 fields (22023)', async () => {
  for (let from = 0; from < 1_000; from += 200) await declare('hoard', twoHundredFields(from))
  await expect(declare('hoard', { '/one-more': 'masked' })).rejects.toMatchObject({ sqlstate: '22023' })
  expect(Object.keys((await recorded('hoard'))!.fields)).toHaveLength(1_000)
})
