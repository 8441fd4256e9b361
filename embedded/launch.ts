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
  /** The pid in a stale `postmaster.pid`, known to be no server of this folder. */
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

/** Starts the server process and its watchdog. */
export async function launch(options: LaunchOptions): Promise<Launched> {
  const { home, binaries, log } = options
  const file = await log.open()
  try {
    const server = spawn(join(binaries.binPath, 'postgres'), commandLine(options), {
      ...home.account,
      cwd: '/',
      env: environment(options.stalePid),
      // A session of its own: Ctrl-C must reach the application first, which drains, and only then stops the server.
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
    // A socket path is limited to about 100 bytes, which a deep project folder exceeds. TCP on loopback has no such limit.
    unix_socket_directories: '',
    log_line_prefix: LOG_LINE_PREFIX,
    // Not known to PostgreSQL: it only writes it to postmaster.opts, where `stopEmbedded` reads whose server this is.
    ...(detached ? {} : { 'symphony.owner': String(process.pid) }),
  }
  return ['-D', home.dataPath, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])]
}

/**
 * PostgreSQL takes a stale lock file for a live one when its pid belongs to any process it may signal; that would keep
 * a restarted container down for ever. This variable, made for pg_ctl's own shell, tells it to look past one pid. It
 * still checks the shared memory named in the file, so a surviving backend still keeps a second server out.
 */
function environment(stalePid: number | undefined): Readonly<Record<string, string>> {
  return stalePid === undefined ? CLEAN_ENVIRONMENT : { ...CLEAN_ENVIRONMENT, PG_GRANDPARENT_PID: String(stalePid) }
}

async function notRun(server: ChildProcess): Promise<EmbeddedError> {
  const [cause]: unknown[] = await once(server, 'error')
  return new EmbeddedError('EMBEDDED_START_FAILED', 'The PostgreSQL program could not be run.', { cause })
}

/**
 * `read` returns when the other end of the pipe is closed, which the kernel does however this process ends. Then: the
 * fast stop, half a minute for its checkpoint, and after that the immediate one.
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

/** Starts a process that stops the server when this process ends. Synchronous, so that the server is never without one. */
function startWatchdog(serverPid: number, account: Account | undefined): { dismiss(): void } {
  const watchdog: ChildProcess = spawn('/bin/sh', ['-c', SCRIPT, 'symphony-watchdog', String(serverPid)], {
    ...account,
    cwd: '/',
    env: CLEAN_ENVIRONMENT,
    // A session of its own: Ctrl-C in the terminal must not reach it.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  // Without a watchdog the server still runs and stops as asked; only an unforeseen death would leave it behind, and
  // then the next start adopts it.
  watchdog.on('error', () => {})
  watchdog.unref()
  return { dismiss: () => void watchdog.kill('SIGKILL') }
}
