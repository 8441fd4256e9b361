import { once } from 'node:events'
import { createServer } from 'node:http'
import { Webhook } from 'standardwebhooks'
import { expect, onTestFinished, test } from 'vitest'
import { callRail, loadRail, webhookRail } from '../../../../libs/rails/index.js'
import { portOf } from '../../../support/portOf.js'
import { railRequest } from '../../../support/railRequest.js'

test('the standardwebhooks library verifies webhooks with either secret of a rotation', async () => {
  const secrets = [1, 2].map((byte) => `whsec_${Buffer.alloc(32, byte).toString('base64')}`)
  const other = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
  const payload = { state: 'DISPATCHED', instructionId: 'INV-1 äöü €', outcomeNo: 1 }
  const results: unknown[] = []
  const server = createServer((request, response) => {
    void (async () => {
      const chunks: Buffer[] = []
      for await (const chunk of request) chunks.push(Buffer.from(chunk))
      const body = Buffer.concat(chunks).toString()
      const headers = Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)]))
      for (const secret of secrets) results.push(new Webhook(secret).verify(body, headers))
      expect(() => new Webhook(other).verify(body, headers)).toThrow('No matching signature')
      expect(() => new Webhook(secrets[0]!).verify(`${body} `, headers)).toThrow('No matching signature')
      response.writeHead(204).end()
    })()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const rail = loadRail(webhookRail({ type: 'orders', url: `http://127.0.0.1:${portOf(server)}/`, secret: secrets }))
  onTestFinished(() => rail.close())
  expect(await callRail(rail, railRequest({ payload }))).toMatchObject({ kind: 'success' })
  expect(results).toEqual([payload, payload])
})
