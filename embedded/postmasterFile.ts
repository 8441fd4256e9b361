import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from './errors.js'
import { runProgram } from './runProgram.js'

/**
 * Who has the pid that the file names. `server`: the server of this folder. `stranger`: certainly somebody else.
 * `unclear`: a PostgreSQL that does not tell which folder it serves. `nobody`: the process is gone.
 */
type PidHolder = 'server' | 'stranger' | 'unclear' | 'nobody'

/** What PostgreSQL itself writes down about the server of a data folder. */
interface Postmaster {
  readonly pid: number
  readonly port: number
  /** `starting`, `ready` or `stopping`; empty while the file is being written. */
  readonly status: string
  readonly holder: PidHolder
}

/** Reads `postmaster.pid`; undefined when there is none, which is how a clean stop leaves the folder. */
export async function readPostmaster(dataPath: string): Promise<Postmaster | undefined> {
  const text = await readIfAny(join(dataPath, 'postmaster.pid'))
  const lines = text?.split('\n') ?? []
  // Negative for a standalone backend, which is no server but holds the folder as well.
  const pid = Math.abs(Number(lines[0]))
  if (!Number.isInteger(pid) || pid === 0) return undefined
  return { pid, port: Number(lines[3]), status: lines[7]?.trim() ?? '', holder: await holderOf(pid, dataPath) }
}

/** How the server of this folder was last started: survives its stop, and is replaced by the next start. */
export async function readLastStart(
  dataPath: string,
): Promise<{ readonly port: number | undefined; readonly ownerPid: number | undefined }> {
  const options = (await readIfAny(join(dataPath, 'postmaster.opts'))) ?? ''
  return { port: numberIn(/"port=(\d+)"/.exec(options)), ownerPid: numberIn(/"symphony\.owner=(\d+)"/.exec(options)) }
}

/** The major version that created the cluster; undefined when there is no cluster. */
export async function readClusterVersion(dataPath: string): Promise<number | undefined> {
  const text = await readIfAny(join(dataPath, 'PG_VERSION'))
  return text === undefined ? undefined : Number.parseInt(text, 10)
}

/**
 * A pid alone proves nothing: after a restart of a container the old number is somebody else's. The command line does,
 * since we always start with `-D` and the real path. It is readable for everyone, unlike the working directory, for
 * which root in a container often lacks the capability.
 */
async function holderOf(pid: number, dataPath: string): Promise<PidHolder> {
  const commandLine = await readCommandLine(pid)
  if (commandLine === undefined) return 'nobody'
  if (commandLine.includes(` -D ${dataPath} `)) return 'server'
  // A backend calls itself `postgres: …` and a zombie nothing at all; neither is a server.
  const isServer = /(^|\/)(postgres|postmaster) /.test(commandLine)
  return isServer && !commandLine.includes(' -D /') ? 'unclear' : 'stranger'
}

/** Its words, each followed by a space; undefined when there is no such process. */
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
    // ESRCH: the process ended between opening its file and reading it.
    if (hasCode(error, 'ENOENT', 'ESRCH')) return undefined
    throw error
  }
}
