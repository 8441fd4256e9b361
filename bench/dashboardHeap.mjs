// Measures the JavaScript heap of two dashboard pages while payments change: `npm run bench:heap`. The pages Overview
// and Payments stay open in Chromium for `--minutes` (60). `symphony start` pays `--rate` (100) payments a second, and
// its event stream reports each. Prints the heap in use after a garbage collection, and fails if a page uses 60 MB or
// more.
import { spawn } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chromium } from 'playwright-core'
import { temporaryFolder } from './folder.mjs'

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '60' },
    rate: { type: 'string', default: '100' },
    chromium: { type: 'string', default: '/usr/bin/chromium' },
  },
})
const MINUTES = Number(values.minutes)
const RATE = Number(values.rate)
const MEGABYTES_MAX = 60
const SAMPLES = 12
/** Time before the first sample, in which a page reads its first data and compiles its code. */
const SETTLE_MS = 15_000

const folder = await temporaryFolder('symphony-heap-')
const server = await startSymphony()
const browser = await chromium.launch({ executablePath: values.chromium, args: ['--no-sandbox', '--disable-gpu'] })
const load = { enqueued: 0, changes: 0, errors: 0, stopped: false }
try {
  const loading = Promise.all([enqueueSteadily(), countChanges()])
  // A page in its own context has its own process, so its heap is measured alone.
  const pages = [await openPage('Overview', ''), await openPage('Payments', 'payments')]
  await sleep(SETTLE_MS)
  const heaps = []
  const startedMs = performance.now()
  for (let sample = 0; sample <= SAMPLES; sample++) {
    await sleep(Math.max(0, startedMs + (sample / SAMPLES) * MINUTES * 60_000 - performance.now()))
    const before = { ...load }
    const heap = await Promise.all(pages.map(({ measure }) => measure()))
    heaps.push(heap)
    const minutes = ((performance.now() - startedMs) / 60_000).toFixed(1)
    const used = pages.map(({ name }, index) => `${name} ${heap[index].toFixed(1)} MB`).join(', ')
    print(`${minutes} min: ${used}; ${before.enqueued} payments, ${before.changes} changes streamed`)
  }
  load.stopped = true
  await Promise.race([loading, sleep(5_000)])
  const seconds = (performance.now() - startedMs + SETTLE_MS) / 1_000
  const largest = Math.max(...heaps.flat())
  const result = {
    minutes: MINUTES,
    changesPerSecond: Math.round(load.changes / seconds),
    startMB: heaps[0].map(rounded),
    endMB: heaps.at(-1).map(rounded),
    largestMB: rounded(largest),
    failedRequests: load.errors,
  }
  print(JSON.stringify(result))
  if (largest >= MEGABYTES_MAX)
    throw new Error(`the heap reached ${rounded(largest)} MB; expected < ${MEGABYTES_MAX} MB`)
} finally {
  load.stopped = true
  await browser.close()
  server.child.kill('SIGTERM')
  await server.ended
  await rm(folder, { recursive: true, force: true })
}

async function startSymphony() {
  const command = fileURLToPath(new URL('../bin/symphony', import.meta.url))
  const dataDir = join(folder, 'symphony')
  const child = spawn(process.execPath, [command, 'start', '--data-dir', dataDir, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  let printed = ''
  child.stdout.on('data', (chunk) => (printed += String(chunk)))
  while (!printed.includes('symphony show')) {
    if (child.exitCode !== null) throw new Error(`symphony start ended with code ${child.exitCode}: ${printed}`)
    await sleep(50)
  }
  const address = /The dashboard: (http:\/\/[\w.:]+)/.exec(printed)[1]
  return { child, ended, address, token: (await readFile(join(dataDir, 'access-token'), 'utf8')).trim() }
}

async function openPage(name, path) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 } })
  const page = await context.newPage()
  await page.goto(`${server.address}/#token=${encodeURIComponent(server.token)}`)
  await page.getByText('Live', { exact: true }).locator('visible=true').waitFor()
  await page.evaluate(`location.hash = '#/${path}'`)
  await page.getByRole('heading', { name, level: 1 }).waitFor()
  const inspector = await context.newCDPSession(page)
  const measure = async () => {
    await inspector.send('HeapProfiler.collectGarbage')
    return (await inspector.send('Runtime.getHeapUsage')).usedSize / 1e6
  }
  return { name, measure }
}

/** Enqueues a batch ten times a second. After a slow batch, the rate is lower for a moment and is not made up for. */
async function enqueueSteadily() {
  const payload = { amount: '12.50', currency: 'EUR', destination: 'DE89370400440532013000' }
  for (let batch = 0; !load.stopped; batch++) {
    const next = performance.now() + 100
    const instructions = Array.from({ length: RATE / 10 }, (_, index) => {
      const instructionId = `invoice-${batch}-${index}`
      return {
        instructionId,
        idempotencyKey: instructionId,
        participantId: `p-${index}`,
        railType: 'simulated',
        payload,
      }
    })
    const answer = await send('/v1/instructions/batch', { method: 'POST', body: JSON.stringify({ instructions }) })
    if (answer?.ok === true) load.enqueued += instructions.length
    else load.errors += 1
    await answer?.text()
    await sleep(Math.max(0, next - performance.now()))
  }
}

async function countChanges() {
  const answer = await send('/v1/stream', {})
  let rest = ''
  for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
    if (load.stopped) return
    const lines = (rest + chunk).split('\n')
    rest = lines.pop()
    for (const line of lines) load.changes += line.split('"outboxId"').length - 1
  }
}

/** Returns the response; undefined if there is none. */
async function send(path, init) {
  const headers = { authorization: `Bearer ${server.token}`, 'content-type': 'application/json' }
  try {
    return await fetch(server.address + path, { ...init, headers })
  } catch {
    return undefined
  }
}

function rounded(megabytes) {
  return Math.round(10 * megabytes) / 10
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
