import type { Server } from 'node:net'

/** Returns the port that the operating system gave to a server. */
export function portOf(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('the server does not listen on a port')
  return address.port
}
