import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { deploy, doctor } from '../../libs/deployment/index.js'
import { inOrder, readSchemaFiles } from '../../libs/deployment/schemaFiles.js'
import { withTestDatabase } from '../support/database.js'

/** The first version of the schema that was ever committed, as somebody may have it in use. */
const EARLIER = fileURLToPath(new URL('../support/earlierSchema', import.meta.url))

test('PRIM-POSTGRES-SCHEMA-001 a deployment brings an earlier one forward, with the data that is in it', async () => {
  await withTestDatabase(
    async (db) => {
      const client = await db.connect()
      await client.query('BEGIN')
      const { cluster, objects, privileges } = readSchemaFiles(EARLIER)
      for (const { sql } of cluster) await client.query(sql)
      const schema = quoteIdentifier(db.schema)
      await client.query(`CREATE SCHEMA ${schema} AUTHORIZATION symphony_owner; SET LOCAL ROLE symphony_owner`)
      for (const { sql } of [...objects, privileges]) await client.query(sql)
      await client.query('COMMIT')
      for (const n of [1, 2, 3]) {
        await client.query(`SELECT enqueue_payment_outbox('i' || $1, 'p', 'k', 'rail', '{}')`, [String(n)])
      }
      const { rows } = await client.query(`SELECT * FROM claim_outbox_batch(2, 'worker', 60)`)
      await client.query(
        `SELECT * FROM complete_outbox_attempt($1, $2, 'worker', 'DISPATCHED', 'reference', NULL, NULL, NULL, 5, NULL)`,
        [rows[0].outbox_id, rows[0].lease_token],
      )
      const contents = async () => {
        const tables: unknown[][] = []
        for (const name of ['identities', 'pending', 'attempts', 'events']) {
          tables.push((await client.query(`SELECT * FROM payment_outbox_${name}`)).rows)
        }
        return tables
      }
      const before = await contents()

      expect(await deploy({ url: db.url, schema: db.schema })).toMatchObject({ outcome: 'deployed' })

      const after = await contents()
      expect(after.map((table) => table.length)).toEqual(before.map((table) => table.length))
      // What is new is added to the rows; what was there stays as it was.
      expect(after).toMatchObject(before)
      expect(await doctor({ url: db.url, schema: db.schema, full: true })).toMatchObject({ ok: true })
      const settled = await client.query(
        `SELECT * FROM complete_outbox_attempt($1, $2, 'worker', 'DISPATCHED', 'second', NULL, NULL, NULL, 5, NULL)`,
        [rows[1].outbox_id, rows[1].lease_token],
      )
      expect(settled.rows).toMatchObject([{ state: 'DISPATCHED' }])
      expect(inOrder(readSchemaFiles()).length).toBeGreaterThan(inOrder(readSchemaFiles(EARLIER)).length)
    },
    { content: 'empty' },
  )
})
