import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { chmod, chown, copyFile, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { StartOptions } from '../../embedded/index.js'
import { builtPath } from './builtPath.js'
import { copyFolder, makeTestFolder, removeTestFolder, testBinaries } from './server.js'

export interface Account {
  readonly uid: number
  readonly gid: number
}

/** Report of a starter process: data of its ready server, or its error. */
export interface Report {
  readonly url: string
  readonly port: number
  readonly version: number
  readonly adopted: boolean
  readonly uid: number
  readonly error?: { readonly code: string; readonly message: string }
}

/** Another Node.js process that called `startEmbedded`. It can be killed or run as another user. */
export interface Starter {
  readonly report: Report
  readonly process: ChildProcess
  /** Ends the process. Resolves with its exit code or signal. */
  end(how: 'stop' | 'exit' | 'idle' | NodeJS.Signals): Promise<number | string>
}

/**
 * `idle` removes everything that keeps the process alive, except handles of the launcher. The program sets the
 * strictest umask.
 */
const PROGRAM = `
const { startEmbedded } = await import(process.argv[1])
process.umask(0o077)
process.on('SIGINT', () => {})
try {
  const server = await startEmbedded(JSON.parse(process.argv[2]))
  process.stdin.on('data', async (order) => {
    if (String(order) === 'stop') { await server.stop(); process.exit(0) }
    if (String(order) === 'exit') process.exit(0)
    if (String(order) === 'idle') process.stdin.destroy()
  })
  const { url, port, version, adopted } = server
  console.log(JSON.stringify({ url, port, version, adopted, uid: process.getuid() }))
} catch (error) {
  console.log(JSON.stringify({ error: { code: error.code, message: error.message } }))
}
`

/** The built launcher and the shipped binaries in a folder that every user can read. */
export class StarterKit {
  readonly folder: string
  readonly binaries: string
  readonly #entryPoint: string
  readonly #node: string

  private constructor(folder: string, node: string) {
    this.folder = folder
    this.binaries = join(folder, 'native')
    this.#entryPoint = join(folder, 'embedded', 'index.js')
    this.#node = node
  }

  static async unpack(): Promise<StarterKit> {
    const folder = await makeTestFolder()
    await chmod(folder, 0o755)
    await copyFolder(builtPath('../embedded/dist'), join(folder, 'embedded'))
    await writeFile(join(folder, 'package.json'), '{"type":"module"}')
    await copyFolder(testBinaries(18), join(folder, 'native'))
    spawnSync('chmod', ['-R', 'a+rX', folder])
    return new StarterKit(folder, await nodeForAnyone(folder))
  }

  async start(options: StartOptions, account?: Account): Promise<Starter> {
    const child = spawn(
      this.#node,
      [
        '--input-type=module',
        '--eval',
        PROGRAM,
        this.#entryPoint,
        JSON.stringify({ binaries: this.binaries, ...options }),
      ],
      // A process group, so that a test can send the signal of Ctrl-C.
      { ...account, cwd: '/', detached: true, stdio: ['pipe', 'pipe', 'inherit'] },
    )
    const exited = new Promise<number | string>((resolve) => {
      child.once('exit', (code, signal) => resolve(code ?? signal ?? 'lost'))
    })
    for await (const line of createInterface(child.stdout)) {
      const report: Report = JSON.parse(line)
      return {
        report,
        process: child,
        end: (how) => {
          if (how === 'stop' || how === 'exit' || how === 'idle') child.stdin.write(how)
          else child.kill(how)
          return exited
        },
      }
    }
    throw new Error(`The starter printed nothing and exited with ${await exited}.`)
  }

  async remove(): Promise<void> {
    await removeTestFolder(this.folder)
  }
}

/** Returns an unprivileged account if the suite runs as root, else undefined. */
export async function ordinaryAccount(): Promise<Account | undefined> {
  if (process.getuid?.() !== 0) return undefined
  const line = (await readFile('/etc/passwd', 'utf8')).split('\n').find((entry) => entry.startsWith('nobody:'))
  const [, , uid, gid] = line?.split(':') ?? []
  return { uid: Number(uid), gid: Number(gid) }
}

export async function makeFolderOf(account: Account | undefined, folder: string): Promise<string> {
  await mkdir(folder)
  if (account !== undefined) await chown(folder, account.uid, account.gid)
  return folder
}

/**
 * Returns a Node.js that other users can run. Version managers install Node.js in a home folder, which others may not
 * enter.
 */
async function nodeForAnyone(folder: string): Promise<string> {
  const account = await ordinaryAccount()
  const reachable = spawnSync(process.execPath, ['--version'], { ...account, cwd: '/' }).status === 0
  if (reachable) return process.execPath
  const copy = join(folder, 'node')
  await copyFile(process.execPath, copy)
  await chmod(copy, 0o755)
  return copy
}
