import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { Account } from './account.js'
import type { ClusterHome } from './clusterHome.js'
import { EmbeddedError } from './errors.js'
import type { Binaries } from './findBinaries.js'
import { LOOPBACK } from './ports.js'
import { CLEAN_ENVIRONMENT } from './runProgram.js'
import { LOG_LINE_PREFIX, type ServerLog } from './ServerLog.js'
import { stopProcess } from './stopEmbedded.js'

interface LaunchOptions {
  readonly home: ClusterHome
  readonly binaries: Binaries
  readonly log: ServerLog
  readonly port: number
  readonly settings: Readonly<Record<string, string>>
  readonly detached: boolean
  /** Pid in a stale `postmaster.pid` that certainly belongs to no server of this folder. */
  readonly stalePid: number | undefined
}

/** Server process that this process started. The server may not be ready yet. */
export interface Launched {
  readonly pid: number
  hasExited(): boolean
  stop(timeoutMs: number): Promise<void>
  /** Stops the watchdog, so that the server may outlive this process. */
  release(): void
}

export async function launch(options: LaunchOptions): Promise<Launched> {
  const { home, binaries, log } = options
  const file = await log.open()
  try {
    const server = spawn(join(binaries.binPath, 'postgres'), commandLine(options), {
      ...home.account,
      cwd: '/',
      env: environment(options.stalePid),
      // A separate session, so that Ctrl-C reaches only the application, which drains and then stops the server.
      detached: true,
      stdio: ['ignore', file.fd, file.fd],
    })
    if (server.pid === undefined) throw await notRun(server)
    const watchdog = startWatchdog(server.pid, home.account)
    // A watchdog that outlives its server could signal another process with the same pid.
    server.once('exit', () => watchdog.dismiss())
    server.unref()
    const { pid } = server
    const hasExited = () => server.exitCode !== null || server.signalCode !== null
    return {
      pid,
      hasExited,
      stop: (timeoutMs) => stopProcess(pid, async () => hasExited(), timeoutMs),
      release: () => watchdog.dismiss(),
    }
  } finally {
    await file.close()
  }
}

function commandLine({ home, port, settings, detached }: LaunchOptions): string[] {
  const all: Record<string, string> = {
    timezone: 'UTC',
    log_timezone: 'UTC',
    cluster_name: 'symphony',
    ...settings,
    port: String(port),
    listen_addresses: LOOPBACK,
    // A socket path is limited to about 100 bytes, which a deep project folder exceeds. TCP has no such limit.
    unix_socket_directories: '',
    log_line_prefix: LOG_LINE_PREFIX,
    // PostgreSQL ignores this setting but writes it to postmaster.opts, where `stopEmbedded` reads the owner.
    ...(detached ? {} : { 'symphony.owner': String(process.pid) }),
  }
  return ['-D', home.dataPath, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/**
 * Returns the environment of the server. If any process has the pid in a stale lock file, PostgreSQL refuses to start.
 * A restarted container would then never start again. PG_GRANDPARENT_PID, intended for the shell of pg_ctl, makes
 * PostgreSQL ignore one pid. PostgreSQL still checks the shared memory, so a surviving backend prevents a second
 * server.
 */
function environment(stalePid: number | undefined): Readonly<Record<string, string>> {
  return stalePid === undefined ? CLEAN_ENVIRONMENT : { ...CLEAN_ENVIRONMENT, PG_GRANDPARENT_PID: String(stalePid) }
}

async function notRun(server: ChildProcess): Promise<EmbeddedError> {
  const [cause]: unknown[] = await once(server, 'error')
  return new EmbeddedError('EMBEDDED_START_FAILED', 'The PostgreSQL program could not be run.', { cause })
}

/**
 * Script of the watchdog. `read` returns when this process ends in any way, because the kernel then closes the pipe.
 * The script requests a fast stop, and after 30 s an immediate one.
 */
const SCRIPT = `
trap '' HUP INT TERM
read -r _
kill -INT "$1" 2>/dev/null || exit 0
for _ in $(seq 300); do
  kill -0 "$1" 2>/dev/null || exit 0
  sleep 0.1
done
kill -QUIT "$1" 2>/dev/null
`

/** Starts a process that stops the server when this process ends. Synchronous, so that the server is always watched. */
function startWatchdog(serverPid: number, account: Account | undefined): { dismiss(): void } {
  const watchdog: ChildProcess = spawn('/bin/sh', ['-c', SCRIPT, 'symphony-watchdog', String(serverPid)], {
    ...account,
    cwd: '/',
    env: CLEAN_ENVIRONMENT,
    // A separate session, because Ctrl-C in the terminal must not reach the watchdog.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Without a watchdog the server still works. After a crash of this process the server then keeps running, and the
  // next start adopts it.
  watchdog.on('error', () => {})
  watchdog.unref()
  return { dismiss: () => void watchdog.kill('SIGKILL') }
}
