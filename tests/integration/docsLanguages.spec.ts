import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { codeBlocks, fileOf } from '../../scripts/guides/codeBlocks.mjs'
import { createTestDatabase } from '../support/database.js'

const root = join(import.meta.dirname, '..', '..')
const page = await readFile(join(root, 'docs', 'coding', 'other-languages.md'), 'utf8')

function programOf(name: string): string {
  const block = codeBlocks(page).find((one) => fileOf(one) === name)
  if (block === undefined) throw new Error(`the page has no ${name}`)
  return block.code
}

test('SQL of other-languages.md runs as symphony_ingest; a repeat or refusal adds no order row', async () => {
  await using db = await createTestDatabase({ schema: 'symphony' })
  const till = await db.createLogin('till', { roles: ['symphony_ingest'], inherit: true })
  await db.queryNoRole(programOf('orders.sql').replaceAll('orders', 'public.orders').replace('till', till.name))
  const client = await till.connect()
  await client.query('SET search_path TO public')
  const enqueue = async (text: string) => {
    // A simple query with several statements returns several results, but the types of the driver declare one.
    const answers: unknown = await client.query(text)
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the third statement of the program returns the row
    const [, , { rows }] = answers as [
      unknown,
      unknown,
      { readonly rows: readonly { case: string; outbox_id: string }[] },
    ]
    return rows[0]
  }
  const sql = programOf('enqueue.sql')
  const first = await enqueue(sql)
  expect(first).toEqual({ case: 'new', outbox_id: expect.any(String) })
  expect(await enqueue(sql)).toEqual({ case: 'known', outbox_id: first?.outbox_id })

  for (const [from, to, code] of [
    ['"12.50"', '"12.51"', 'P7004'],
    [`'shop',`, `'a shop',`, '22023'],
  ] as const) {
    await expect(client.query(sql.replace(from, to).replace('ORDER-1', 'ORDER-2'))).rejects.toMatchObject({ code })
    await client.query('ROLLBACK')
  }
  expect((await db.queryNoRole('SELECT id FROM public.orders')).rows).toEqual([{ id: 'ORDER-1' }])
  await expect(client.query('SELECT * FROM symphony.payment_outbox_pending')).rejects.toMatchObject({ code: '42501' })
  const unserved = await client.query(`SELECT * FROM symphony.unserved_outbox_rails(ARRAY['SEPA'])`)
  expect(unserved.rows).toEqual([{ rail_type: 'SEPA', served_at: null }])
})

test('other-languages.md and languages.check.ts mention every program of examples/languages', async () => {
  const check = await readFile(join(root, 'tests', 'debian', 'languages.check.ts'), 'utf8')
  for (const name of await readdir(join(root, 'examples', 'languages'))) {
    expect(page).toContain(`(../../examples/languages/${name})`)
    expect(check).toContain(`'${name}'`)
  }
})
