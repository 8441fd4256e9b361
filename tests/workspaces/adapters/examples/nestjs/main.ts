// A NestJS application that pays. The module makes `Symphony` injectable and runs a worker while the application runs.
import 'reflect-metadata'
import { Body, Controller, HttpCode, Inject, Module, Param, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { defineRail, Symphony, type JsonObject } from 'symphony-pg'
import { deploy } from 'symphony-pg/admin'
import { SymphonyModule } from './SymphonyModule.js'

@Controller('invoices')
class Invoices {
  readonly #symphony: Symphony

  constructor(@Inject(Symphony) symphony: Symphony) {
    this.#symphony = symphony
  }

  @Post(':id/payment')
  @HttpCode(202)
  async pay(@Param('id') id: string, @Body() payload: JsonObject): Promise<{ state: string }> {
    const payment = { railType: 'bank', instructionId: id, participantId: 'ACME', payload }
    const { state } = await this.#symphony.transaction((tx) => this.#symphony.enqueue(payment, { tx }))
    return { state }
  }
}

const url = process.env['DATABASE_URL'] ?? 'embedded:.symphony'
await deploy({ url })

const bank = defineRail({
  type: 'bank',
  onUnknown: 'hold',
  dispatch: async () => ({ outcome: 'success', reference: 'bank-1' }),
})

@Module({ imports: [SymphonyModule.register({ url, rails: [bank] })], controllers: [Invoices] })
class Application {}

const app = await NestFactory.create(Application, { logger: ['error'] })
await app.listen(0, '127.0.0.1')

const pay = async () => {
  const body = JSON.stringify({ amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' })
  const headers = { 'content-type': 'application/json' }
  const answer = await fetch(`${await app.getUrl()}/invoices/INV-1/payment`, { method: 'POST', headers, body })
  console.log(answer.status, await answer.text())
}
const settled = app.get(Symphony).events.once('outbox.recorded')
await pay()
await settled
await pay()
await app.close()

/* prints
202 {"state":"PENDING"}
202 {"state":"DISPATCHED"}
*/
