import { execFile } from 'node:child_process'
import { chmod, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { makeTestFolder, removeTestFolder } from '../../../support/server.js'
import { BrokerProcess, freePort } from './BrokerProcess.js'

export interface RabbitServer {
  readonly url: string
  readonly broker: BrokerProcess
  /** Runs `rabbitmqctl` for this server. */
  control(...words: readonly string[]): Promise<void>
  remove(): Promise<void>
}

/** Folder of the RabbitMQ programs. The wrappers in PATH use the server of the system instead. */
const PROGRAMS = '/usr/lib/rabbitmq/bin'

/** Starts RabbitMQ with its own port mapper in a temporary folder. */
export async function startRabbit(): Promise<RabbitServer> {
  const folder = await makeTestFolder()
  const [port, distributionPort, mapperPort] = [await freePort(), await freePort(), await freePort()]
  const env = await environmentOf(folder, { port, distributionPort, mapperPort })
  const mapper = await BrokerProcess.start({
    command: 'epmd',
    words: ['-d', '-port', String(mapperPort), '-address', '127.0.0.1'],
    readyText: 'epmd running',
  })
  const broker = await BrokerProcess.start({
    command: join(PROGRAMS, 'rabbitmq-server'),
    words: [],
    env,
    readyText: 'Server startup complete',
  })
  return {
    url: `amqp://guest:guest@127.0.0.1:${port}`,
    broker,
    control: async (...words) => {
      const options = { env: { PATH: process.env['PATH'], ...env } }
      await promisify(execFile)(
        join(PROGRAMS, 'rabbitmqctl'),
        ['--node', env['RABBITMQ_NODENAME'] ?? '', ...words],
        options,
      )
    },
    remove: async () => {
      await broker.kill()
      await mapper.kill()
      await removeTestFolder(folder)
    },
  }
}

interface Ports {
  readonly port: number
  readonly distributionPort: number
  readonly mapperPort: number
}

async function environmentOf(
  folder: string,
  { port, distributionPort, mapperPort }: Ports,
): Promise<Readonly<Record<string, string>>> {
  const home = join(folder, 'home')
  await mkdir(home)
  // Writes the Erlang cookie, a secret that the server and rabbitmqctl share. Other users must not read it.
  await writeFile(join(home, '.erlang.cookie'), 'SYMPHONY')
  await chmod(join(home, '.erlang.cookie'), 0o400)
  await writeFile(join(folder, 'enabled_plugins'), '[].')
  await writeFile(join(folder, 'environment'), '')
  return {
    HOME: home,
    LANG: 'C.UTF-8',
    ERL_EPMD_PORT: String(mapperPort),
    ERL_EPMD_ADDRESS: '127.0.0.1',
    RABBITMQ_NODENAME: 'symphony@localhost',
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_NODE_PORT: String(port),
    RABBITMQ_DIST_PORT: String(distributionPort),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_LOGS: '-',
    RABBITMQ_PID_FILE: join(folder, 'pid'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'environment'),
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq'),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-start_epmd false',
  }
}
