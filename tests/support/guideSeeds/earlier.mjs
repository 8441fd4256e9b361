// A deployment of the first schema that was ever committed, with a payment in it, for the guide about upgrades.
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { readSchemaFiles } from '../../../dist/libs/deployment/schemaFiles.js'

const pg = createRequire(import.meta.url)('pg')
const { cluster, objects, privileges } = readSchemaFiles(fileURLToPath(new URL('../earlierSchema', import.meta.url)))

const client = new pg.Client(process.env.DATABASE_URL)
await client.connect()
await client.query('BEGIN')
for (const { sql } of cluster) await client.query(sql)
await client.query('CREATE SCHEMA symphony AUTHORIZATION symphony_owner')
await client.query('SET LOCAL search_path = symphony, pg_temp; SET LOCAL ROLE symphony_owner')
for (const { sql } of [...objects, privileges]) await client.query(sql)
await client.query('COMMIT')
await client.query(
  `SELECT symphony.enqueue_payment_outbox('INV-1', 'ACME', 'INV-1/1', 'my-bank', '{"amount": "1.00"}')`,
)
await client.end()
