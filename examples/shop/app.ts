// Express and Prisma: an order and its payment in one transaction. The login may only enqueue.
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '@prisma/client'
import express from 'express'
import { fromPrisma, Symphony } from 'symphony-pg'
import { sepa } from './contracts.js'

const prisma = new PrismaClient({ adapter: new PrismaPg({ connectionString: process.env['APP_URL']! }) })
const symphony = new Symphony({ rails: [sepa] }) // no url: it opens no connection, it uses yours
const app = express().use(express.json())

app.post('/orders/:id/pay', async ({ params: { id }, body: { amount, iban } }, response) => {
  const item = await prisma.$transaction(async (tx) => {
    await tx.order.update({ where: { id }, data: { state: 'paying' } })
    const payload = { amount, currency: 'EUR', destination: iban, invoice: id } as const
    const payment = { railType: 'SEPA', instructionId: id, participantId: 'shop', payload } as const
    return symphony.enqueue(payment, { tx: fromPrisma(tx) })
  })
  response.status(item.created ? 201 : 200).json({ outboxId: item.outboxId, state: item.state })
})
const server = app.listen(process.env['PORT'], () => console.log(server.address()))
