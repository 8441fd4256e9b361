import type { TestDatabase } from './database.js'

/**
 * Freezes every process of the server with SIGSTOP: connections stay open and get no answer. Only for a server that the
 * test owns. Returns a function that continues it; a second call does nothing.
 */
export async function freezeServer(db: TestDatabase): Promise<() => void> {
  const { rows } = await db.queryNoRole<{ pid: number }>(
    `SELECT split_part(pg_read_file('postmaster.pid'), chr(10), 1)::integer AS pid
     UNION ALL SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()
     UNION ALL SELECT pg_backend_pid()`,
  )
  const stopped = rows.map(({ pid }) => pid)
  for (const pid of stopped) process.kill(pid, 'SIGSTOP')
  return () => {
    for (const pid of stopped.splice(0)) process.kill(pid, 'SIGCONT')
  }
}
