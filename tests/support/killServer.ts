import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import type { EmbeddedServer } from '../../embedded/index.js'

/** Kills the postmaster and all its processes before any can clean up. */
export async function killServer({ dataDir, url }: EmbeddedServer): Promise<void> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('SELECT pid FROM pg_catalog.pg_stat_activity')
  const postmaster = Number.parseInt(await readFile(join(dataDir, 'postgres/data/postmaster.pid'), 'utf8'), 10)
  for (const pid of [postmaster, ...rows.map((row) => row.pid)]) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // The process has already exited.
    }
  }
}
