// Reconciles a statement with as many entries as the ledger has payments, by `symphony reconcile` in its own process.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { fillLedger } from '../../fill.mjs'
import { temporaryFolder } from '../../folder.mjs'
import { watchServerCpu } from '../../serverCpu.mjs'

const RAIL = 'bank'
const KINDS = ['paidTwice', 'paidNotRecorded', 'recordedNotPaid', 'amountDiffers', 'reversed', 'unknownEntry']
const SAMPLE_MS = 100
/** Unit of the times in /proc/PID/stat. */
const TICK_US = 10_000

export async function reconcile({ fixture, sizes, print }) {
  const payments = sizes([1_000_000], [2_000]).at(-1)
  const folder = await temporaryFolder('symphony-reconcile-')
  try {
    return await fixture.withDatabase(async (database) => {
      await fillLedger(await database.connect(), { payments })
      const file = join(folder, 'statement.xml')
      const expected = await writeStatement(file, database.url, payments)
      print(`${expected.entries} entries written`)
      const measured = await measure(file, database.url)
      for (const [name, count] of Object.entries(expected.counts))
        if (measured.counts[name] !== count)
          throw new Error(`${name}: ${measured.counts[name]} found, ${count} expected`)
      return resultOf({ ...measured, entries: expected.entries, payments }, print)
    })
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Writes a statement of the filled ledger, with one error of each kind per thousand payments. */
async function writeStatement(file, url, payments) {
  const errors = KINDS.map((kind) => `${kind}=${Math.ceil(payments / 1_000)}`).join(',')
  const words = [
    '--database',
    url,
    '--rail',
    RAIL,
    '--payments',
    payments,
    '--errors',
    errors,
    '--seed',
    '1',
    '--out',
    file,
  ]
  await promisify(execFile)(process.execPath, [pathOf('../../../scripts/statements.mjs'), ...words.map(String)])
  return JSON.parse(await readFile(`${file}.expected.json`, 'utf8'))
}

async function measure(file, url) {
  const words = ['reconcile', '--rail', RAIL, '--statement', file, '--format', 'camt053', '--json']
  const cpu = await watchServerCpu(url, pg, SAMPLE_MS)
  const startedMs = performance.now()
  const child = spawn(process.execPath, [pathOf('../../../dist/libs/cli/childMain.js'), ...words], {
    env: { DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const written = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (chunk) => (written[name] += String(chunk)))
  const node = { rssMiB: 0, us: 0 }
  const ended = once(child, 'close').then(() => true)
  while (!(await Promise.race([ended, sleep(SAMPLE_MS)]))) Object.assign(node, await readProcess(child.pid))
  const seconds = (performance.now() - startedMs) / 1_000
  const serverUs = await cpu.end()
  if (child.exitCode !== 0) throw new Error(`symphony reconcile ended with ${child.exitCode}: ${written.stderr}`)
  return { counts: JSON.parse(written.stdout).counts, seconds, serverUs, node }
}

/** Reads the peak resident memory and the CPU time of a process so far. Linux only. */
async function readProcess(pid) {
  const read = (name) => readFile(`/proc/${pid}/${name}`, 'utf8').catch(() => undefined)
  const [status, stat] = await Promise.all([read('status'), read('stat')])
  const peak = /^VmHWM:\s+(\d+) kB$/m.exec(status ?? '')?.[1]
  if (peak === undefined || stat === undefined) return {}
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { rssMiB: Number(peak) / 1_024, us: (Number(fields[11]) + Number(fields[12])) * TICK_US }
}

function resultOf({ entries, payments, seconds, serverUs, node }, print) {
  const perSecond = entries / seconds
  const cpu = `CPU per entry: server ${((serverUs ?? 0) / entries).toFixed(0)} µs, Node.js ${(node.us / entries).toFixed(0)} µs`
  print(`${entries} entries in ${seconds.toFixed(1)} s, ${cpu}, at most ${node.rssMiB.toFixed(0)} MiB`)
  const size = `${entries.toLocaleString('en')} entries of camt.053 with ${payments.toLocaleString('en')} payments`
  return {
    figures: [
      {
        figure: `reconciliation of ${size}, entries per second`,
        bound: '≥ 10,000',
        measured: `${Math.round(perSecond).toLocaleString('en')} (${cpu})`,
        ok: perSecond >= 10_000,
      },
      {
        figure: 'its resident memory in Node.js, the most',
        bound: '≤ 200 MiB',
        measured: `${node.rssMiB.toFixed(0)} MiB`,
        ok: node.rssMiB <= 200,
      },
    ],
  }
}

function pathOf(file) {
  return fileURLToPath(new URL(file, import.meta.url))
}
