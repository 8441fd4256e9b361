// A NestJS application that pays: the module brings an injectable `Payments`, and runs the relayer as long as the application runs.
import 'reflect-metadata'
import { Body, Controller, HttpCode, Inject, Module, Param, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { JsonObject } from 'symphony-pg'
import { deploy } from 'symphony-pg/deployment'
import { startEmbedded } from '@symphony-pg/embedded'
import { Payments, SymphonyModule } from './SymphonyModule.js'

@Controller('invoices')
class Invoices {
  readonly #payments: Payments

  constructor(@Inject(Payments) payments: Payments) {
    this.#payments = payments
  }

  @Post(':id/payment')
  @HttpCode(202)
  async pay(@Param('id') id: string, @Body() payload: JsonObject): Promise<{ state: string }> {
    const names = { instructionId: id, participantId: 'ACME', idempotencyKey: `${id}/1`, railType: 'bank' }
    const { state } = await this.#payments.enqueue({ ...names, payload })
    return { state }
  }
}

const url = process.env['DATABASE_URL'] ?? (await startEmbedded({ dataDir: '.symphony' })).url
await deploy({ url })

let settle = () => {}
const settled = new Promise<void>((resolve) => (settle = resolve))
const bank = {
  type: 'bank',
  onUnknown: 'hold' as const,
  dispatch: () => ({ outcome: 'success' as const, reference: 'bank-1' }),
}
const onEvent = ({ type }: { type: string }) => {
  if (type === 'outbox.recorded') settle()
}

@Module({ imports: [SymphonyModule.register({ url, rails: [bank], onEvent })], controllers: [Invoices] })
class Application {}

const app = await NestFactory.create(Application, { logger: ['error'] })
await app.listen(0, '127.0.0.1')

const pay = async () => {
  const body = JSON.stringify({ amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${await app.getUrl()}/invoices/INV-1/payment`, { method: 'POST', headers, body })
  console.log(answer.status, await answer.text())
}
await pay()
await settled
await pay()
await app.close()

/* prints
202 {"state":"PENDING"}
202 {"state":"DISPATCHED"}
*/
