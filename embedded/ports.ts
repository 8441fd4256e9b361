import { once } from 'node:events'
import { createServer } from 'node:net'
import { EmbeddedError, hasCode } from './errors.js'

/** Only address that the server listens on: it is not reachable from other machines. */
export const LOOPBACK = '127.0.0.1'

/** Returns the port to try next. Another program may take it in the meantime; the caller then tries again. */
export async function choosePort(wanted: number | undefined, last: number | undefined): Promise<number> {
  if (wanted !== undefined) {
    if (await isPortFree(wanted)) return wanted
    throw new EmbeddedError('EMBEDDED_PORT_TAKEN', `Port ${wanted} on ${LOOPBACK} is in use by another program.`, {
      remedy: 'Stop that program, choose another --port, or omit it to use a free port.',
    })
  }
  // Prefers the last port, so that saved addresses keep working.
  return last !== undefined && (await isPortFree(last)) ? last : bindBriefly(0)
}

export async function isPortFree(port: number): Promise<boolean> {
  try {
    await bindBriefly(port)
    return true
  } catch (error) {
    if (hasCode(error, 'EADDRINUSE', 'EACCES')) return false
    throw error
  }
}

async function bindBriefly(port: number): Promise<number> {
  const server = createServer()
  // Exclusive, because a worker of node:cluster would otherwise share a port that another worker uses.
  server.listen({ port, host: LOOPBACK, exclusive: true })
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('expected a listening TCP port')
  return address.port
}
