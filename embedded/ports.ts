import { once } from 'node:events'
import { createServer } from 'node:net'
import { EmbeddedError, hasCode } from './errors.js'

/** The server listens here only; it is never reachable from another machine. */
export const LOOPBACK = '127.0.0.1'

/** The port to try next. It may be taken a moment later: the caller looks again when the server could not start. */
export async function choosePort(wanted: number | undefined, last: number | undefined): Promise<number> {
  if (wanted !== undefined) {
    if (await isPortFree(wanted)) return wanted
    throw new EmbeddedError('EMBEDDED_PORT_TAKEN', `Port ${wanted} on ${LOOPBACK} is in use by another program.`, {
      remedy: 'Stop that program or choose another --port; without one, a free port is found.',
    })
  }
  // The last port again, so that an address somebody wrote down keeps working.
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
  // Exclusive: a worker of node:cluster would otherwise ask its primary, and share a port that is taken.
  server.listen({ port, host: LOOPBACK, exclusive: true })
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (address === null || typeof address === 'string') throw new Error('expected a listening TCP port')
  return address.port
}
