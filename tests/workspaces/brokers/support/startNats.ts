import { makeTestFolder, removeTestFolder } from '../../../support/server.js'
import { BrokerProcess, freePort } from './BrokerProcess.js'

export interface NatsServer {
  readonly url: string
  readonly broker: BrokerProcess
  remove(): Promise<void>
}

/** Starts nats-server with JetStream in a temporary folder. */
export async function startNats(): Promise<NatsServer> {
  const folder = await makeTestFolder()
  const port = await freePort()
  const broker = await BrokerProcess.start({
    command: 'nats-server',
    words: ['--addr', '127.0.0.1', '--port', String(port), '--jetstream', '--store_dir', folder],
    readyText: 'Server is ready',
  })
  return {
    url: `nats://127.0.0.1:${port}`,
    broker,
    remove: async () => {
      await broker.kill()
      await removeTestFolder(folder)
    },
  }
}
