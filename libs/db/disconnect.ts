import type { Client } from 'pg'

/** How long a goodbye may take. A server that does not answer it is gone, and the socket is just dropped. */
const GOODBYE_MS = 1_000

/** Closes a connection of our own, politely if the other side is there to notice. */
export async function disconnect(client: Client): Promise<void> {
  const cut = setTimeout(() => client.connection.stream.destroy(), GOODBYE_MS)
  await client.end()
  clearTimeout(cut)
}
