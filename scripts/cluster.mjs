// Failover drill on this machine: `npm run cluster -- --help`. Starts three PostgreSQL nodes under Patroni and etcd,
// HAProxy, PgBouncer and two worker hosts with the configuration of deploy/cluster/. Kills the primary during dispatch,
// then verifies the ledger against the rail book. Removes everything at the end, even if interrupted.
import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { ensureBuilt } from './build.mjs'
import { Cluster } from './cluster/Cluster.mjs'
import { findPrograms, ProgramsMissingError } from './cluster/programs.mjs'
import { interrupt } from './cluster/Processes.mjs'
import { killCommands } from './cluster/symphony.mjs'

const HELP = `Starts a cluster on this machine, kills its primary during dispatch, then compares the ledger with the rail book.

  npm run cluster                       synchronous replication: dispatch continues without an operator
  npm run cluster -- --asynchronous     the new primary lacks outcomes: dispatch is frozen until an operator lifts the freeze

  --payments <n>    number of payments (default: 20000)
  --asynchronous    no commit waits for a standby
  --json            the last line is { "ok": true | false, "figures": { … } }
  --help            this text

Needs Debian's patroni, etcd-server, pgbouncer, haproxy and postgresql (15 or newer), installed but not running. If the
drill runs as root, they run as the account postgres. Exit code 0: no payment lost or paid twice. 1: one was, or the drill
failed. 2: not started. 130, 143: interrupted.
`

const GRACE_MS = 5_000
const SIGNALS = { SIGINT: 130, SIGTERM: 143 }

process.exitCode = await main()
// Exits even if waits of an interrupted drill are still pending.
setTimeout(() => process.exit(), 500).unref()

async function main() {
  let options, programs, account
  try {
    options = readOptions()
    if (options.help) {
      process.stdout.write(HELP)
      return 0
    }
    programs = findPrograms()
    account = accountOfServers()
  } catch (error) {
    if (!(error instanceof UsageError || error instanceof ProgramsMissingError)) throw error
    process.stderr.write(`${error.message}\n`)
    return 2
  }
  ensureBuilt()
  const { runClusterDrill } = await import('./cluster/runClusterDrill.mjs')
  const folder = mkdtempSync(join(tmpdir(), 'symphony-cluster-'))
  if (account !== undefined) chownSync(folder, account.uid, account.gid)
  chmodSync(folder, 0o711)
  const synchronous = !options.asynchronous
  const cluster = new Cluster({ folder, account, programs, synchronous })
  const print = createPrinter(options.json)
  const running = (async () => {
    print(`three nodes with ${synchronous ? 'synchronous' : 'asynchronous'} replication are started`)
    await cluster.start()
    print(`${await cluster.primary()} leads, the others follow`)
    return runClusterDrill({ cluster, folder, payments: options.payments, synchronous, print })
  })()
  try {
    const outcome = await Promise.race([running, interruption()])
    if (outcome.exitCode !== undefined) {
      print('interrupted')
      interrupt()
      killCommands()
      // Lets the drill end before its cluster stops, for at most GRACE_MS, because a statement may wait for a primary
      // for ever.
      await Promise.race([running.catch(() => {}), sleep(GRACE_MS)])
      return outcome.exitCode
    }
    return report(outcome, options, print)
  } catch (error) {
    print(`the drill failed: ${error.stack ?? error.message}`)
    return 1
  } finally {
    killCommands()
    await cluster.stop()
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 200 })
    print('all processes stopped, all files removed')
  }
}

function report({ figures, defects }, { json }, print) {
  const ok = defects.length === 0
  for (const [name, value] of Object.entries(figures)) print(`  ${name.padEnd(24)} ${value}`)
  for (const defect of defects) print(`DEFECT: ${defect}`)
  print(ok ? 'no payment lost, no payment paid twice' : 'failed: see the defects above')
  if (json) process.stdout.write(`${JSON.stringify({ ok, figures, defects })}\n`)
  return ok ? 0 : 1
}

class UsageError extends Error {}

function readOptions() {
  const flag = { type: 'boolean', default: false }
  let values
  try {
    const options = { payments: { type: 'string', default: '20000' }, asynchronous: flag, json: flag, help: flag }
    values = parseArgs({ options }).values
  } catch (error) {
    throw new UsageError(`${error.message}\nnpm run cluster -- --help lists the options.`)
  }
  const text = String(values.payments)
  const payments = /^\d+$/.test(text) ? Number(text) : 0
  if (payments < 100 || payments > 10_000_000) {
    throw new UsageError(`--payments: expected a whole number from 100 to 10000000, got "${text}"`)
  }
  return { ...values, payments }
}

/**
 * Returns the account `postgres` if this process is root, because PostgreSQL, Patroni and PgBouncer refuse to run as
 * root.
 */
function accountOfServers() {
  if (process.geteuid() !== 0) return undefined
  const entry = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
    .find(([name]) => name === 'postgres')
  if (entry === undefined) throw new UsageError('The account postgres does not exist: run this as an ordinary user.')
  return { uid: Number(entry[2]), gid: Number(entry[3]) }
}

/** Resolves at the first SIGINT or SIGTERM. `once` removes the handler, so a second signal ends the process at once. */
function interruption() {
  return new Promise((resolve) => {
    for (const [signal, exitCode] of Object.entries(SIGNALS)) process.once(signal, () => resolve({ exitCode }))
  })
}

/** Prints progress with the seconds since the start: to stderr with `--json`, else to stdout. */
function createPrinter(json) {
  const startedMs = performance.now()
  return (text) => {
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(1).padStart(6)
    ;(json ? process.stderr : process.stdout).write(`${seconds} s  ${text}\n`)
  }
}
