import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { EmbeddedError } from './errors.js'
import type { Home } from './home.js'
import { LOOPBACK } from './ports.js'
import type { Binaries } from './prepareBinaries.js'
import { CLEAN_ENVIRONMENT } from './runProgram.js'
import { LOG_LINE_PREFIX, type ServerLog } from './ServerLog.js'
import { stopProcess } from './stopProcess.js'
import { watchOver } from './watchdog.js'

interface LaunchOptions {
  readonly home: Home
  readonly binaries: Binaries
  readonly log: ServerLog
  readonly port: number
  readonly settings: Readonly<Record<string, string>>
  readonly detached: boolean
  /** The pid in a stale `postmaster.pid`, known to be no server of this folder. */
  readonly stalePid: number | undefined
}

/** A server process of ours that may still be on its way. */
export interface Launched {
  readonly pid: number
  hasExited(): boolean
  stop(timeoutMs: number): Promise<void>
  /** From now on the server may outlive this process. */
  release(): void
}

/** Starts the server process and, in the same breath, its watchdog. */
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
    const watchdog = watchOver(server.pid, home.account)
    // A watchdog that survived its server would one day signal a stranger with the same pid.
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
    // A socket's path may have about 100 bytes, which a deep project folder exceeds; TCP on loopback serves everyone.
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
