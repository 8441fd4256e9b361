import { Client } from 'pg'
import { expect, test } from 'vitest'
import { templateName } from '../../libs/testing/ensureTemplate.js'
import { createTestSymphony, startTestServer } from '../../libs/testing/index.js'

async function withClient<T>(url: string, body: (client: Client) => Promise<T>): Promise<T> {
  const client = new Client(url)
  await client.connect()
  try {
    return await body(client)
  } finally {
    await client.end()
  }
}

test('createTestSymphony replaces an invalid template database; stop() ends the test server', async () => {
  const server = await startTestServer()
  const template = new URL(server.url)
  template.pathname = `/${templateName('symphony')}`
  try {
    await withClient(server.url, (client) => client.query(`CREATE DATABASE ${templateName('symphony')}`))
    await withClient(template.href, (client) =>
      client.query('CREATE SCHEMA symphony; CREATE TABLE symphony.payment_outbox_pending (foreign_column int)'),
    )
    await using symphony = await createTestSymphony({ serverUrl: server.url })
    const { rows } = await withClient(symphony.url, (client) =>
      client.query(`SELECT count(*)::int AS deployed FROM symphony.symphony_deployments`),
    )
    expect(rows[0].deployed).toBeGreaterThan(0)
  } finally {
    await server.stop()
  }
  await expect(withClient(server.url, async () => {})).rejects.toThrow('ECONNREFUSED')
})
