// Seeds a deployment that differs from this release in one function and one checksum, with a payment, for the upgrade
// guide.
import { createRequire } from 'node:module'
import { deploy } from '../../../dist/libs/deployment/index.js'

const pg = createRequire(import.meta.url)('pg')

await deploy({ url: process.env.DATABASE_URL })
const client = new pg.Client(process.env.DATABASE_URL)
await client.connect()
await client.query(
  `SELECT symphony.enqueue_payment_outbox('INV-1', 'ACME', 'INV-1/1', 'my-bank', '{"amount": "1.00"}')`,
)
await client.query('BEGIN')
await client.query('SET LOCAL search_path = symphony, pg_temp; SET LOCAL ROLE symphony_owner')
await client.query(
  'CREATE OR REPLACE FUNCTION outbox_attempt_ceiling() RETURNS integer LANGUAGE sql IMMUTABLE RETURN 19',
)
await client.query(
  `SELECT record_deployment(1, '0.0.9', array_agg(file),
     array_agg(CASE WHEN file LIKE 'functions/%' THEN repeat('0', 64) ELSE sha256 END))
   FROM symphony_deployments`,
)
await client.query('COMMIT')
await client.end()
