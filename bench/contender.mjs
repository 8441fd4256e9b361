// Runs one contender in its own process. `bench/run.mjs` forks it and sends it one task at a time. Rates and CPU times
// exclude the start of the process and the stop of its worker.
import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { watchServerCpu } from './serverCpu.mjs'

const [moduleUrl, url, key] = process.argv.slice(2)
const contender = await import(moduleUrl)
const { default: pg } = await import(createRequire(moduleUrl).resolve('pg'))
const queue = await contender.open({ url, pg, key })
let last = 0

const TASKS = {
  about: () => ({ version: contender.version, setting: contender.settingOf(key) }),
  enqueueBatch: ({ count, size }) =>
    perSecond(count, async () => {
      for (let done = 0; done < count; done += size) await queue.enqueueMany(payloads(Math.min(size, count - done)))
    }),
  enqueue: ({ count, inFlight }) =>
    perSecond(count, async () => {
      let left = count
      const lane = async () => {
        while (left-- > 0) await queue.enqueue(payloads(1)[0])
      }
      await Promise.all(Array.from({ length: inFlight }, lane))
    }),
  drain: ({ count }) => perSecond(count, () => drain(count)),
  latency: ({ samples }) => latencies(samples),
  sustained: ({ seconds }) => sustained(seconds),
  // Used by bench/scale, where another process enqueues and several contenders drain.
  beginWork: async () => {
    shared.worker = await queue.work(() => (shared.handled += 1))
  },
  progress: () => ({ handled: shared.handled, rssMiB: process.memoryUsage.rss() / 2 ** 20 }),
  endWork: () => shared.worker.stop(),
}
const shared = { handled: 0, worker: undefined }

/** Handles items until all are handled and the contender's own tables show each as finished. */
async function drain(count) {
  const progress = { handled: 0 }
  const worker = await queue.work(() => (progress.handled += 1))
  while (progress.handled < count) await sleep(5)
  while ((await queue.unfinished()) > 0) await sleep(1)
  return () => worker.stop()
}

/**
 * Measures the milliseconds from the acknowledged commit to the start of the handler, one item at a time on an idle
 * system.
 */
async function latencies(samples) {
  const measured = []
  let arrived = deferred()
  const worker = await queue.work(() => arrived.resolve(performance.now()))
  await sleep(1_000)
  for (let n = 0; n < samples; n++) {
    arrived = deferred()
    await queue.enqueue(payloads(1)[0])
    const committedMs = performance.now()
    measured.push((await arrived.promise) - committedMs)
    // A random pause, so that samples do not align with a polling timer.
    await sleep(20 + Math.random() * 30)
  }
  await worker.stop()
  return measured
}

/**
 * Enqueues in batches of 100 while a worker drains, with a backlog of at most about 5,000. Returns the rate, and the
 * greatest resident memory of this process.
 */
async function sustained(seconds) {
  let handled = 0
  let enqueued = 0
  let rssMax = 0
  const worker = await queue.work(() => (handled += 1))
  const startedMs = performance.now()
  const lane = async () => {
    while (performance.now() - startedMs < seconds * 1_000) {
      if (enqueued - handled > 5_000) {
        await sleep(1)
        continue
      }
      enqueued += 100
      await queue.enqueueMany(payloads(100))
      rssMax = Math.max(rssMax, process.memoryUsage.rss())
    }
  }
  await Promise.all([lane(), lane()])
  const rate = handled / ((performance.now() - startedMs) / 1_000)
  while ((await queue.unfinished()) > 0) await sleep(10)
  await worker.stop()
  return { rate, rssMiB: Math.round(rssMax / 2 ** 20) }
}

/** Returns items per second, and the microseconds of CPU per item in the server's backends and in this process. */
async function perSecond(count, work) {
  const serverCpu = await watchServerCpu(url, pg)
  const cpuBefore = process.cpuUsage()
  const startedMs = performance.now()
  const after = await work()
  const rate = count / ((performance.now() - startedMs) / 1_000)
  const { user, system } = process.cpuUsage(cpuBefore)
  const serverUs = await serverCpu.end()
  await after?.()
  return { rate, serverUs: serverUs === undefined ? undefined : serverUs / count, nodeUs: (user + system) / count }
}

function payloads(count) {
  return Array.from({ length: count }, () => {
    last += 1
    return { n: last, amount: '12.34', currency: 'EUR', destination: 'DE89370400440532013000' }
  })
}

function deferred() {
  let resolve
  const promise = new Promise((settle) => (resolve = settle))
  return { promise, resolve }
}

async function answer({ id, task, options }) {
  try {
    process.send({ id, result: await TASKS[task](options ?? {}) })
  } catch (error) {
    process.send({ id, error: error instanceof Error ? error.stack : String(error) })
  }
}

process.on('message', (message) => void answer(message))
process.send({ id: 'ready' })
