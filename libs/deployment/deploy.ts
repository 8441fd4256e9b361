import { setTimeout as sleep } from 'node:timers/promises'
import { systemClock } from '../core/index.js'
import { openLoginDatabase } from '../db/index.js'
import { INSTALLER_STATEMENT_TIMEOUT_MS } from './db.js'
import { Installer, type DeployReport } from './Installer.js'
import { resolveDeployOptions, type DeployOptions } from './options.js'
import { lockConflictError } from './deploymentErrors.js'
import { isConcurrencyError } from './plan.js'

/** Pause between two attempts, in which transactions that waited behind our lock requests can run. */
const PAUSE_MS = 300

/**
 * Deploys this release to the schema of one database, in one transaction. Safe to run at any time, concurrently, and
 * while workers run. A repeated deployment changes nothing, except that it revokes manual grants to our roles.
 */
export async function deploy(given: DeployOptions): Promise<DeployReport> {
  const options = resolveDeployOptions(given)
  const { url, schema, tls, dryRun, patienceMs } = options
  const database = openLoginDatabase({
    url,
    schema,
    applicationName: 'symphony deploy',
    statementTimeoutMs: INSTALLER_STATEMENT_TIMEOUT_MS,
    ...(tls === undefined ? {} : { tls }),
  })
  try {
    const installer = new Installer(database, options)
    return dryRun ? await installer.plan() : await runPatiently(() => installer.install(), patienceMs)
  } finally {
    await database.close()
  }
}

/** Repeats an attempt that failed because of concurrent work. The failed attempt was rolled back. */
async function runPatiently<T>(attempt: () => Promise<T>, patienceMs: number): Promise<T> {
  const endsAtMs = systemClock.monotonicMs() + patienceMs
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt()
    } catch (error) {
      if (!isConcurrencyError(error)) throw error
      if (systemClock.monotonicMs() >= endsAtMs) throw lockConflictError(attempts, error)
    }
    // The pause is random, so that two deployments do not collide again.
    await sleep(PAUSE_MS * (0.5 + Math.random()))
  }
}
