// Measures the effect of one failed database on the others of a fleet: `npm run bench:fleet`. Seven databases have
// work. The eighth is on its own server, which runs in one half of a round and is stopped in the other. Prints the
// drain rate of the seven per round, and the median of the ratios.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { startEmbedded } from '@symphony-pg/embedded'
import { Symphony, SymphonyFleet } from '../dist/libs/symphony/index.js'
import { deploy } from '../dist/libs/deployment/index.js'
import { temporaryFolder } from './folder.mjs'

const ROUNDS = Number(process.argv[2] ?? 3)
const MESSAGES = Number(process.argv[3] ?? 3_000)
const folder = await temporaryFolder('symphony-fleet-')
const seven = await startEmbedded({ dataDir: join(folder, 'seven') })
let eighth = await startEmbedded({ dataDir: join(folder, 'eighth') })
const names = ['one', 'two', 'three', 'four', 'five', 'six', 'seven']
try {
  const databases = [
    ...(await Promise.all(names.map((name) => createDatabase(seven.url, name)))),
    await createDatabase(eighth.url, 'eight'),
  ]
  for (const { url } of databases) await deploy({ url })
  const progress = { handled: 0 }
  const topics = { work: () => void (progress.handled += 1) }
  const fleet = new SymphonyFleet({ databases, pollMs: 50 })
  await fleet.start()

  const drain = async (round) => {
    const wanted = progress.handled + 7 * MESSAGES
    for (const { name, url } of databases.slice(0, 7)) await fill(url, `${round}-${name}`)
    const startedMs = performance.now()
    const worker = fleet.worker({ topics, batchSize: 100, concurrency: 50 })
    await worker.start()
    while (progress.handled < wanted) await sleep(5)
    const seconds = (performance.now() - startedMs) / 1_000
    await worker.stop()
    return (7 * MESSAGES) / seconds
  }
  await drain('warm-up')
  // Measures pairs in alternating order and takes the ratio of each pair, because the machine's speed varies by more
  // than the expected effect.
  const rates = { up: [], down: [] }
  const run = async (round, state) => {
    if (state === 'up') {
      rates.up.push(await drain(`${round}-up`))
      return
    }
    const { dataDir, port } = eighth
    await eighth.stop()
    rates.down.push(await drain(`${round}-down`))
    eighth = await startEmbedded({ dataDir, port })
  }
  for (let round = 1; round <= ROUNDS; round++) {
    for (const state of round % 2 === 0 ? ['up', 'down'] : ['down', 'up']) await run(round, state)
    print(
      `round ${round}: ${Math.round(rates.up.at(-1))} a second with all eight, ${Math.round(rates.down.at(-1))} with one down`,
    )
  }
  const ratio = median(rates.down.map((down, round) => down / rates.up[round]))
  print(JSON.stringify({ up: median(rates.up), down: median(rates.down), ratio }))
  await fleet.close()
} finally {
  await Promise.allSettled([seven.stop(), eighth.stop()])
  await rm(folder, { recursive: true, force: true })
}
process.exit()

async function createDatabase(serverUrl, name) {
  const client = new Client(serverUrl)
  await client.connect()
  await client.query(`CREATE DATABASE ${name}`)
  await client.end()
  const url = new URL(serverUrl)
  url.pathname = `/${name}`
  return { name, url: url.href }
}

async function fill(url, prefix) {
  const symphony = new Symphony({ url })
  const instructions = Array.from({ length: MESSAGES }, (_, n) => {
    const id = `${prefix}-${n}`
    return { instructionId: id, participantId: id, railType: 'work', payload: {} }
  })
  await symphony.transaction((tx) => symphony.enqueueMany(instructions, { tx }))
  await symphony.close()
}

function median(values) {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
