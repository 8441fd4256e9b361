import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from './errors.js'
import { runProgram } from './runProgram.js'

/**
 * Process with the pid in the file. `server`: the server of this folder. `other process`: certainly another process.
 * `unclear`: a PostgreSQL whose command line does not name its folder. `none`: no process.
 */
type PidHolder = 'server' | 'other process' | 'unclear' | 'none'

/** PostgreSQL's own record of the server of a data folder. */
interface Postmaster {
  readonly pid: number
  readonly port: number
  /** `starting`, `ready` or `stopping`; empty while the file is written. */
  readonly status: string
  readonly holder: PidHolder
}

/** Reads `postmaster.pid`; undefined if there is none, as after a clean stop. */
export async function readPostmaster(dataPath: string): Promise<Postmaster | undefined> {
  const text = await readIfAny(join(dataPath, 'postmaster.pid'))
  const lines = text?.split('\n') ?? []
  // A standalone backend, which uses the folder without being a server, writes a negative pid.
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return undefined
  return { pid, port: Number(lines[3]), status: lines[7]?.trim() ?? '', holder: await holderOf(pid, dataPath) }
}

/** Reads the options of the last start, which remain after a stop. */
export async function readLastStart(
  dataPath: string,
): Promise<{ readonly port: number | undefined; readonly ownerPid: number | undefined }> {
  const options = (await readIfAny(join(dataPath, 'postmaster.opts'))) ?? ''
  return { port: numberIn(/"port=(\d+)"/.exec(options)), ownerPid: numberIn(/"symphony\.owner=(\d+)"/.exec(options)) }
}

/** Reads the major version that created the cluster; undefined if there is no cluster. */
export async function readClusterVersion(dataPath: string): Promise<number | undefined> {
  const text = await readIfAny(join(dataPath, 'PG_VERSION'))
  return text === undefined ? undefined : Number.parseInt(text, 10)
}

/**
 * Finds out which process has a pid. The pid alone does not identify the server, because another process may have it
 * after a restart of a container. The command line identifies the server, which the launcher always starts with `-D`
 * and the real path. Unlike the working directory, every user can read the command line.
 */
async function holderOf(pid: number, dataPath: string): Promise<PidHolder> {
  const commandLine = await readCommandLine(pid)
  if (commandLine === undefined) return 'none'
  if (commandLine.includes(` -D ${dataPath} `)) return 'server'
  // The command line of a backend begins with `postgres: …`, that of a zombie is empty. Neither is a server.
  const isServer = /(^|\/)(postgres|postmaster) /.test(commandLine)
  return isServer && !commandLine.includes(' -D /') ? 'unclear' : 'other process'
}

/** Returns the command line, each word followed by a space; undefined if there is no such process. */
async function readCommandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') return (await readIfAny(`/proc/${pid}/cmdline`))?.replaceAll('\0', ' ')
  try {
    const { stdout } = await runProgram('ps', ['-ww', '-o', 'command=', '-p', String(pid)])
    return `${stdout.trim()} `
  } catch {
    return undefined
  }
}

function numberIn(match: RegExpExecArray | null): number | undefined {
  return match === null ? undefined : Number(match[1])
}

async function readIfAny(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    // ESRCH: the process ended while its file was read.
    if (hasCode(error, 'ENOENT', 'ESRCH')) return undefined
    throw error
  }
}
