import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { childrenOf, FinalError, Processes, send, waitUntil } from './Processes.mjs'

const run = promisify(execFile)
const templates = fileURLToPath(new URL('../../deploy/cluster/', import.meta.url))
const ADDRESS = '127.0.0.1'
const NODES = ['node1', 'node2', 'node3']
const DATABASE = 'payments'

/**
 * Three PostgreSQL nodes under Patroni with etcd, HAProxy as the address of the primary, and PgBouncer before it. Uses
 * the files of deploy/cluster/ on loopback.
 */
export class Cluster {
  #folder
  #account
  #programs
  #processes
  #synchronous
  #ports = {}
  #passwords = { superuser: secret(), replication: secret(), rewind: secret() }

  constructor({ folder, account, programs, synchronous }) {
    this.#folder = folder
    this.#account = account
    this.#programs = programs
    this.#synchronous = synchronous
    this.#processes = new Processes(folder, account)
  }

  get processes() {
    return this.#processes
  }

  /**
   * Resolves when one node is the primary and the others stream from it; with `synchronous`, one of them synchronously.
   */
  async start() {
    this.#ports = await freePorts([
      'etcd',
      'etcdPeer',
      'primary',
      'pgbouncer',
      ...NODES.flatMap((node) => [`${node}Postgres`, `${node}Rest`]),
    ])
    this.#startEtcd()
    await waitUntil('etcd answers', async () => (await fetch(`http://${ADDRESS}:${this.#ports.etcd}/health`)).ok)
    for (const node of NODES) this.#startNode(node)
    this.#startHaproxy()
    await waitUntil('three nodes, one of them the primary', () => this.#isWhole(), { timeoutMs: 180_000 })
    const { superuser } = this.#passwords
    await waitUntil('HAProxy leads to the primary', async () => {
      const words = ['-h', ADDRESS, '-p', String(this.#ports.primary), '-U', 'postgres', '--no-password', DATABASE]
      const env = { PATH: process.env.PATH, PGPASSWORD: superuser }
      return run(join(this.#programs.postgres, 'createdb'), words, { env }).then(
        () => true,
        // An earlier attempt created the database, and its answer was lost.
        (error) => String(error.stderr).includes('already exists'),
      )
    })
  }

  /** Starts PgBouncer. Call it after the deployment, because its user list contains the passwords of the logins. */
  async startPgbouncer(passwords) {
    const list = Object.entries(passwords).map(([login, password]) => `"${login}" "${password}"\n`)
    const userlist = this.#write('userlist.txt', list.join(''))
    const file = this.#render('pgbouncer.ini', {
      ADDRESS,
      PRIMARY_ADDRESS: ADDRESS,
      PRIMARY_PORT: this.#ports.primary,
      PGBOUNCER_PORT: this.#ports.pgbouncer,
      USERLIST_FILE: userlist,
      LOG_FILE: this.#processes.logOf('pgbouncer-own'),
      PID_FILE: join(this.#folder, 'pgbouncer.pid'),
    })
    this.#processes.start('pgbouncer', this.#programs.pgbouncer, [file])
    await waitUntil('PgBouncer answers', () => answers(this.#ports.pgbouncer))
  }

  /** URL of the superuser through HAProxy, for deploy. */
  get superuserUrl() {
    return this.#url('postgres', this.#passwords.superuser, this.#ports.primary, DATABASE)
  }

  /** Returns a URL through HAProxy to the current primary, without PgBouncer. LISTEN needs such a session. */
  directUrl(login, password) {
    return this.#url(login, password, this.#ports.primary, DATABASE)
  }

  pooledUrl(login, password) {
    return this.#url(login, password, this.#ports.pgbouncer, DATABASE)
  }

  sessionPooledUrl(login, password) {
    return this.#url(login, password, this.#ports.pgbouncer, `${DATABASE}_session`)
  }

  /** Returns the members as Patroni reports them: name, role, state, lag. */
  async members() {
    for (const node of NODES) {
      if (this.#processes.hasEnded(node)) continue
      try {
        const answer = await fetch(`http://${ADDRESS}:${this.#ports[`${node}Rest`]}/cluster`, {
          signal: AbortSignal.timeout(2_000),
        })
        return (await answer.json()).members
      } catch {
        // Tries the next node.
      }
    }
    return []
  }

  async primary() {
    return (await this.members()).find(({ role, state }) => role === 'leader' && state === 'running')?.name
  }

  /** Returns whether both standbys have received every commit of the primary. */
  async areStandbysLevel() {
    const standbys = (await this.members()).filter(({ role }) => role !== 'leader')
    return standbys.length === NODES.length - 1 && standbys.every(({ lag }) => lag === 0)
  }

  /** Stops the primary's WAL senders, like a network failure between the nodes. The primary still accepts commits. */
  cutReplication(node) {
    const senders = this.#postgresOf(node).filter(({ title }) => title.includes('walsender'))
    for (const { pid } of senders) send(pid, 'SIGSTOP')
    return senders.length
  }

  /** Kills a node's Patroni and all its PostgreSQL processes with SIGKILL, like the loss of the machine. */
  async kill(node) {
    const postgres = this.#postgresOf(node)
    await this.#processes.kill(node)
    for (const { pid } of postgres) send(pid, 'SIGKILL')
    return postgres.length
  }

  /** Kills every process of the cluster. */
  async stop() {
    const servers = NODES.flatMap((node) => this.#postgresOf(node))
    await this.#processes.killAll()
    for (const { pid } of servers) send(pid, 'SIGKILL')
  }

  /** Returns the processes of a node's PostgreSQL: the postmaster first, then its children. */
  #postgresOf(node) {
    try {
      const [line] = readFileSync(join(this.#dataDir(node), 'postmaster.pid'), 'utf8').split('\n')
      const pid = Number(line)
      return [{ pid, title: 'postmaster' }, ...childrenOf(pid)]
    } catch {
      return []
    }
  }

  async #isWhole() {
    for (const node of NODES) {
      if (this.#processes.hasEnded(node)) {
        throw new FinalError(`${node} ended: ${this.#processes.lastLogLines(node)}`)
      }
    }
    const members = await this.members()
    const standbys = members.filter(
      ({ role, state }) => role !== 'leader' && (state === 'running' || state === 'streaming'),
    )
    const isSynchronous = standbys.some(({ role }) => role === 'sync_standby')
    return (
      (await this.primary()) !== undefined &&
      standbys.length === NODES.length - 1 &&
      (isSynchronous || !this.#synchronous) &&
      standbys.every(({ lag }) => lag === 0)
    )
  }

  #startEtcd() {
    const [client, peer] = [`http://${ADDRESS}:${this.#ports.etcd}`, `http://${ADDRESS}:${this.#ports.etcdPeer}`]
    this.#processes.start('etcd', this.#programs.etcd, [
      '--name=etcd1',
      `--data-dir=${this.#folderFor('etcd')}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=etcd1=${peer}`,
      '--log-level=warn',
    ])
  }

  #startNode(node) {
    const file = this.#render(
      'patroni.yml',
      {
        NODE: node,
        ADDRESS,
        NETWORK: `${ADDRESS}/32`,
        REST_PORT: this.#ports[`${node}Rest`],
        POSTGRES_PORT: this.#ports[`${node}Postgres`],
        ETCD_HOSTS: `${ADDRESS}:${this.#ports.etcd}`,
        SYNCHRONOUS_MODE: this.#synchronous,
        // The asynchronous drill lets Patroni promote a standby that lacks commits.
        MAXIMUM_LAG: this.#synchronous ? 1_048_576 : 1_073_741_824,
        DATA_DIR: this.#dataDir(node),
        BIN_DIR: this.#programs.postgres,
        SOCKET_DIR: this.#folderFor(`${node}-run`),
        PGPASS_FILE: join(this.#folderFor(node), 'pgpass'),
        SUPERUSER_PASSWORD: this.#passwords.superuser,
        REPLICATION_PASSWORD: this.#passwords.replication,
        REWIND_PASSWORD: this.#passwords.rewind,
      },
      `${node}.yml`,
    )
    this.#processes.start(node, this.#programs.patroni, [file], { env: { PATH: process.env.PATH, HOME: this.#folder } })
  }

  #startHaproxy() {
    const servers = NODES.flatMap((node) => {
      const name = node.toUpperCase()
      return [
        [`${name}_ADDRESS`, ADDRESS],
        [`${name}_POSTGRES_PORT`, this.#ports[`${node}Postgres`]],
        [`${name}_REST_PORT`, this.#ports[`${node}Rest`]],
      ]
    })
    const words = { ADDRESS, PRIMARY_PORT: this.#ports.primary, ...Object.fromEntries(servers) }
    this.#processes.start('haproxy', this.#programs.haproxy, ['-db', '-f', this.#render('haproxy.cfg', words)])
  }

  #dataDir(node) {
    return join(this.#folder, node, 'data')
  }

  #url(login, password, port, database) {
    return `postgres://${login}:${encodeURIComponent(password)}@${ADDRESS}:${port}/${database}`
  }

  #folderFor(name) {
    const folder = join(this.#folder, name)
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    this.#chown(folder)
    return folder
  }

  /** Fills in the placeholders of a file of deploy/cluster/ and writes it. Throws on an unknown placeholder. */
  #render(template, words, name = template) {
    const text = readFileSync(join(templates, template), 'utf8').replaceAll(/\$\{([A-Z0-9_]+)\}/g, (_, word) => {
      if (words[word] === undefined) throw new Error(`${template}: no value for the placeholder ${word}`)
      return String(words[word])
    })
    return this.#write(name, text)
  }

  #write(name, text) {
    const file = join(this.#folder, name)
    writeFileSync(file, text)
    chmodSync(file, 0o600)
    this.#chown(file)
    return file
  }

  #chown(path) {
    if (this.#account !== undefined) chownSync(path, this.#account.uid, this.#account.gid)
  }
}

function secret() {
  return randomBytes(18).toString('base64url')
}

/** Returns one free port per name. Keeps all ports open until the last one is known, so that they differ. */
async function freePorts(names) {
  const servers = await Promise.all(
    names.map(
      (name) =>
        new Promise((resolve, reject) => {
          const server = createServer().once('error', reject)
          server.listen(0, ADDRESS, () => resolve({ name, server, port: server.address().port }))
        }),
    ),
  )
  await Promise.all(servers.map(({ server }) => new Promise((resolve) => server.close(resolve))))
  return Object.fromEntries(servers.map(({ name, port }) => [name, port]))
}

function answers(port) {
  return new Promise((resolve) => {
    const socket = connect(port, ADDRESS, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
