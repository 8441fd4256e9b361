import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openDatabase } from '../../dist/libs/db/index.js'
import { readDispatchEpoch, readOutboxStatus } from '../../dist/libs/outbox/index.js'
import { readBook, startRailBook } from '../../dist/libs/rails/index.js'
import { FinalError, waitUntil } from './Processes.mjs'
import { Producer } from './Producer.mjs'
import { symphony, symphonyJson } from './symphony.mjs'
import { tryPoolingModes } from './poolingModes.mjs'
import { WorkerHost } from './WorkerHost.mjs'

/**
 * Maximum length of the queue. A tenth of the payments (BACKLOG_SHARE) applies instead if it is less. Low enough that
 * the producer still enqueues at the failover, high enough that both hosts have work.
 */
const BACKLOG_MAX = 2_000
const BACKLOG_SHARE = 10
const DRAIN_MS = 600_000
const LOGINS = ['relayer=executor+readonly', 'shop=ingest', 'web=api', 'watcher=readonly+auditor+control']
/** Time to wait for running calls to end. After that, the rail book must not grow for the same time. */
const QUIET_MS = 5_000

/**
 * Enqueues and dispatches payments, kills the primary during dispatch, and verifies the surviving ledger against the
 * rail book. Returns measurements and defects.
 */
export async function runClusterDrill({ cluster, folder, payments, synchronous, print }) {
  const passwords = await deployTo(cluster)
  await cluster.startPgbouncer({ ...passwords, postgres: passwordOf(cluster.superuserUrl) })
  const pooling = await checkPoolingModes({ cluster, passwords, print })

  const bookFile = join(folder, 'rail-book.ndjson')
  const book = await startRailBook({ file: bookFile })
  const databases = ['watcher', 'shop'].map((login) =>
    openDatabase({ url: cluster.pooledUrl(login, passwords[login]), pooler: 'transaction' }),
  )
  try {
    const [watching, shopping] = databases
    const drill = {
      cluster,
      payments,
      print,
      bookFile,
      passwords,
      watcher: watching.as('symphony_readonly'),
      producer: new Producer(shopping.as('symphony_ingest'), payments),
      hosts: await startHosts({ cluster, folder, passwords, bookUrl: book.url }),
    }
    print(`two worker hosts dispatch payments; the shop enqueues ${payments}`)
    const figures = synchronous ? await loseSynchronousPrimary(drill) : await loseAsynchronousPrimary(drill)
    await drained(drill)
    const defects = [...pooling.defects, ...figures.defects, ...(await stopHosts(drill.hosts))]
    const verdict = await auditBooks(drill)
    return {
      figures: { ...pooling.figures, ...figures.figures, ...verdict.figures },
      defects: [...defects, ...verdict.defects],
    }
  } finally {
    await Promise.all(databases.map((database) => database.close()))
    await book.stop()
  }
}

/** Deploys the schema and creates the logins, without PgBouncer. Returns the passwords. */
async function deployTo(cluster) {
  const words = LOGINS.flatMap((login) => ['--create-login', login])
  const { logins } = await symphonyJson(['deploy', ...words], cluster.superuserUrl)
  return Object.fromEntries(logins.map(({ name, password }) => [name, password]))
}

async function checkPoolingModes({ cluster, passwords, print }) {
  const all = { ...passwords, postgres: passwordOf(cluster.superuserUrl) }
  const urls = {
    transaction: (login) => cluster.pooledUrl(login, all[login]),
    session: (login) => cluster.sessionPooledUrl(login, all[login]),
    nothing: (login) => cluster.directUrl(login, all[login]),
  }
  const results = await tryPoolingModes({
    urlOf: (login, through) => urls[through](login),
    rails: fileURLToPath(new URL('rails.mjs', import.meta.url)),
    onResult: ({ command, through, flags, code, asExpected }, output) => {
      const words = flags.map((flag) => (flag.startsWith('postgres') ? 'URL' : flag)).join(' ')
      print(
        `  ${asExpected ? 'as documented' : 'NOT AS DOCUMENTED'}: ${[command, words].join(' ').trim()}, pooled by ${through}: ${code ?? 'works'}`,
      )
      if (!asExpected) print(output)
    },
  })
  const wrong = results.filter(({ asExpected }) => !asExpected)
  return {
    figures: { poolingCases: results.length },
    defects: wrong.map(({ command, through, code }) => `${command} through ${through}: ${code ?? 'works'}`),
  }
}

/** Starts two hosts: one listens over a direct connection to the primary, the other only polls. */
async function startHosts({ cluster, folder, passwords, bookUrl }) {
  const url = cluster.pooledUrl('relayer', passwords.relayer)
  const hosts = [new WorkerHost(cluster.processes), new WorkerHost(cluster.processes)]
  const listenUrl = cluster.directUrl('relayer', passwords.relayer)
  await hosts[0].start({ name: 'host-a', folder, url, bookUrl, settings: { listenUrl } })
  await hosts[1].start({ name: 'host-b', folder, url, bookUrl, settings: { listen: false } })
  return hosts
}

/** Kills the primary while the producer enqueues. Dispatch must resume without an operator and without a freeze. */
async function loseSynchronousPrimary(drill) {
  const { payments, producer, watcher, print } = drill
  const producing = producer.run(() =>
    waitUntil('the queue is below its limit', () => hasRoom(drill), { timeoutMs: DRAIN_MS }),
  )
  // Prevents an unhandled rejection during the waits below. `await producing` throws the error.
  producing.catch(() => {})
  await waitUntil('half of the payments are terminal', async () => (await endedCount(watcher)) >= payments / 2, {
    timeoutMs: DRAIN_MS,
  })
  await waitUntil(
    'a heartbeat reports that commits wait for a standby',
    async () => (await epochOf(drill))?.synchronous === true,
  )
  const acknowledgedBefore = producer.acknowledged
  const failover = await killPrimary(drill)
  await producing
  const epoch = await epochOf(drill)
  print(`all ${producer.acknowledged} payments were acknowledged to the shop, after ${producer.retries} retries`)
  return {
    figures: { acknowledgedBefore, ...failover, retriesOfTheShop: producer.retries, frozen: epoch.frozen },
    defects: epoch.frozen ? [`dispatch is frozen although nothing was lost: ${epoch.freezeReason}`] : [],
  }
}

/** Kills a primary whose last outcomes reached no standby. Dispatch must freeze until an operator lifts the freeze. */
async function loseAsynchronousPrimary(drill) {
  const { cluster, payments, producer, watcher, bookFile, passwords, print } = drill
  await producer.run()
  await waitUntil('a tenth of the payments is terminal', async () => (await endedCount(watcher)) >= payments / 10, {
    timeoutMs: DRAIN_MS,
  })
  await waitUntil('the standbys have every commit', () => cluster.areStandbysLevel(), { timeoutMs: DRAIN_MS })
  const cut = cluster.cutReplication(await cluster.primary())
  const endedAtCut = await endedCount(watcher)
  print(`replication is stopped (${cut} senders); the primary continues alone`)
  await waitUntil('another tenth is terminal', async () => (await endedCount(watcher)) >= endedAtCut + payments / 10, {
    timeoutMs: DRAIN_MS,
  })
  const endedBefore = await endedCount(watcher)
  const failover = await killPrimary(drill, { resumes: false })
  const epoch = await waitUntil('dispatch is frozen, and all pending items are marked', async () => {
    const seen = await epochOf(drill)
    return seen?.frozen === true && seen.markedAt !== null ? seen : undefined
  })
  const { pendingCount, outcomeUnknownCount } = await readOutboxStatus(watcher)
  const endedAfter = await endedCount(watcher)
  print(
    `frozen: ${epoch.freezeCause}. The new primary lacks ${endedBefore - endedAfter} outcomes; ${pendingCount} items are pending, ${outcomeUnknownCount} of them with an unknown outcome`,
  )
  const sentWhileFrozen = await effectsWhileFrozen(bookFile)
  const operator = cluster.pooledUrl('watcher', passwords.watcher)
  const lifted = await symphony(
    ['freeze', 'lift', '--reason', 'ledger compared with the rail book', '--pooler', 'transaction'],
    operator,
  )
  print('the operator lifts the freeze')
  return {
    figures: {
      ...failover,
      freezeCause: epoch.freezeCause,
      outcomesLost: endedBefore - endedAfter,
      pendingAtFreeze: Number(pendingCount),
      markedUnknown: Number(outcomeUnknownCount),
      sentWhileFrozen,
    },
    defects: [
      ...(outcomeUnknownCount === pendingCount
        ? []
        : [`${pendingCount - outcomeUnknownCount} pending items are not marked`]),
      ...(sentWhileFrozen === 0 ? [] : [`${sentWhileFrozen} payments were made while dispatch was frozen`]),
      ...(endedBefore > endedAfter ? [] : ['no outcome was lost, so the drill showed nothing']),
      ...(lifted.exitCode === 0 ? [] : [`the freeze could not be lifted: ${lifted.stderr.trim()}`]),
    ],
  }
}

/**
 * Kills the primary's node and measures the time to the election, to the first answer and to the next terminal payment.
 */
async function killPrimary({ cluster, watcher, print }, { resumes = true } = {}) {
  const lost = await cluster.primary()
  const endedBefore = await endedCount(watcher)
  const startedMs = performance.now()
  const processes = await cluster.kill(lost)
  print(`killed the primary ${lost}: its Patroni and ${processes} processes; ${endedBefore} payments are terminal`)
  const next = await waitUntil('another node is the primary', async () => {
    const primary = await cluster.primary()
    return primary === lost ? undefined : primary
  })
  const electedSeconds = secondsSince(startedMs)
  print(`${next} is the primary after ${electedSeconds} s`)
  const seen = await waitUntil('the new primary answers through PgBouncer', () => endedCount(watcher))
  const answeredSeconds = secondsSince(startedMs)
  if (!resumes) return { electedSeconds, answeredSeconds }
  await waitUntil('a payment becomes terminal on the new primary', async () => (await endedCount(watcher)) > seen)
  const resumedSeconds = secondsSince(startedMs)
  print(`dispatch resumes after ${resumedSeconds} s`)
  return { endedBeforeTheKill: endedBefore, electedSeconds, answeredSeconds, resumedSeconds }
}

async function effectsWhileFrozen(bookFile) {
  // Calls that ran when the primary died may still pay. A call takes at most two seconds.
  await sleep(QUIET_MS)
  const before = (await readBook(bookFile)).size
  await sleep(QUIET_MS)
  return (await readBook(bookFile)).size - before
}

async function drained({ watcher, hosts, print }) {
  await waitUntil(
    'the queue is empty',
    async () => {
      if (hosts.some(({ hasEnded }) => hasEnded)) throw new FinalError('a worker host ended unexpectedly')
      const { pendingCount, heldCount } = await readOutboxStatus(watcher)
      return pendingCount === heldCount
    },
    { timeoutMs: DRAIN_MS, everyMs: 500 },
  )
  print('the queue is empty')
}

async function stopHosts(hosts) {
  const codes = await Promise.all(hosts.map((host) => host.stop()))
  return codes.filter((code) => code !== 0 && code !== 143).map((code) => `a worker host ended with ${code}`)
}

/** Runs `symphony ledger verify` with the rail book, as an auditor does. */
async function auditBooks({ cluster, payments, bookFile, passwords, print }) {
  const words = ['ledger', 'verify', '--book', bookFile, '--drained', '--pooler', 'transaction', '--json']
  const { exitCode, stdout, stderr } = await symphony(words, cluster.pooledUrl('watcher', passwords.watcher))
  const report = JSON.parse(stdout)
  const { accepted, dispatched, failed, held } = report.counts
  // `checkPoolingModes` enqueued one more payment.
  const lost = payments + 1 - Number(accepted)
  const broken = report.invariants.filter(({ ok }) => !ok)
  print(`ledger verify: ${exitCode === 0 ? 'all invariants hold' : stderr.trim()}`)
  return {
    figures: {
      payments,
      accepted: Number(accepted),
      dispatched: Number(dispatched),
      failed: Number(failed),
      held: Number(held),
      railEffects: report.railEffects,
      lost,
      doublePaid: report.doublePaid,
      invariantsHeld: report.invariants.length - broken.length,
    },
    defects: [
      ...(exitCode === 0 ? [] : [`symphony ledger verify ended with ${exitCode}`]),
      ...report.notJudged.map((id) => `${id} was not checked`),
      ...broken.map(({ id, found }) => `${id} is broken: ${found.slice(0, 3).join(', ')}`),
      ...(lost === 0 ? [] : [`${lost} payments are missing from the ledger`]),
      ...(report.doublePaid === 0 ? [] : [`${report.doublePaid} payments were paid twice`]),
    ],
  }
}

async function endedCount(watcher) {
  const { dispatchedTotal, failedTotal } = await readOutboxStatus(watcher)
  return Number(dispatchedTotal + failedTotal)
}

/**
 * Returns whether the queue is short enough. Returns true while the database does not answer, because a real producer
 * does not know the length of the queue.
 */
async function hasRoom({ watcher, payments }) {
  const status = await readOutboxStatus(watcher).catch(() => undefined)
  return status === undefined || status.pendingCount < Math.min(BACKLOG_MAX, payments / BACKLOG_SHARE)
}

function epochOf({ watcher }) {
  return readDispatchEpoch(watcher)
}

function passwordOf(url) {
  return decodeURIComponent(new URL(url).password)
}

function secondsSince(startedMs) {
  return Math.round((performance.now() - startedMs) / 100) / 10
}
