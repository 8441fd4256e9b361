// Measures the effect of a slow rail on a fast one in the same worker: `npm run bench:slow-rail`. The fast rail answers
// in 5 ms. The slow rail has a concurrency of 5, answers in two seconds and is overloaded. Prints the drain rate of the
// fast rail, alternately alone and beside the slow rail, and the ratio of the medians.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openDatabase } from '../dist/libs/db/index.js'
import { enqueueMany, OutboxRelayer } from '../dist/libs/outbox/index.js'
import { deploy } from '../dist/libs/deployment/index.js'
import { startEmbedded } from '@symphony-pg/embedded'
import { loadRails } from '../dist/libs/rails/index.js'
import { temporaryFolder } from './folder.mjs'

const ROUNDS = Number(process.argv[2] ?? 3)
const PAYMENTS = Number(process.argv[3] ?? 5_000)
const folder = await temporaryFolder('symphony-slow-rail-')
const server = await startEmbedded({ dataDir: join(folder, 'server') })
try {
  await deploy({ url: server.url })
  const database = openDatabase({ url: server.url })
  const progress = { paid: 0, slow: 0, slowMost: 0 }
  const rails = loadRails([
    rail('fast', 5, { onPaid: () => (progress.paid += 1) }),
    rail('slow', 2_000, {
      concurrency: 5,
      onCalled: () => {
        progress.slow += 1
        progress.slowMost = Math.max(progress.slowMost, progress.slow)
      },
      onPaid: () => (progress.slow -= 1),
    }),
  ])
  const rates = { alone: [], beside: [] }
  for (let round = 0; round <= ROUNDS; round++) {
    for (const setting of ['alone', 'beside']) {
      if (setting === 'beside') await fill(database, 'slow', `${round}`, 100)
      await fill(database, 'fast', `${round}-${setting}`, PAYMENTS)
      const wanted = progress.paid + PAYMENTS
      const relayer = new OutboxRelayer(database, rails, { shutdownMs: 5_000 })
      const startedMs = performance.now()
      await relayer.start()
      while (progress.paid < wanted) await sleep(5)
      const perSecond = PAYMENTS / ((performance.now() - startedMs) / 1_000)
      await relayer.stop()
      // Items of the slow rail must not remain when the fast rail is measured alone.
      await drainSlow(database)
      // Round 0 is a warm-up.
      if (round > 0) {
        rates[setting].push(perSecond)
        print(`round ${round}, ${setting}: ${Math.round(perSecond)} a second`)
      }
    }
  }
  const ratio = median(rates.beside) / median(rates.alone)
  print(
    JSON.stringify({ alone: median(rates.alone), beside: median(rates.beside), ratio, slowAtOnce: progress.slowMost }),
  )
  await database.close()
} finally {
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

function rail(type, answerMs, { concurrency, onCalled = () => {}, onPaid }) {
  return {
    type,
    onUnknown: 'resend',
    money: false,
    ...(concurrency === undefined ? {} : { concurrency }),
    dispatch: async ({ reference }) => {
      onCalled()
      await sleep(answerMs)
      onPaid()
      return { outcome: 'success', reference }
    },
  }
}

async function fill(database, railType, prefix, count) {
  const instructions = Array.from({ length: count }, (_, n) => {
    const id = `${railType}-${prefix}-${n}`
    return { instructionId: id, idempotencyKey: id, participantId: id, railType, payload: {} }
  })
  await enqueueMany(instructions, { tx: database.as('symphony_ingest') })
}

/** Completes the remaining items of the slow rail by a rail of the same name that answers at once. */
async function drainSlow(database) {
  const quick = loadRails([rail('slow', 0, { onPaid: () => {} })])
  const relayer = new OutboxRelayer(database, quick)
  while ((await relayer.runOnce()).claimed > 0);
  await relayer.stop()
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
