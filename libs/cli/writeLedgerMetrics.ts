import { rename, writeFile } from 'node:fs/promises'
import { Registry } from 'prom-client'
import { systemClock } from '../core/index.js'
import { LedgerMetrics, type VerifiedLedger } from '../observability/index.js'

/**
 * What a verification found, for the textfile collector of node_exporter: a verification is a job of its own, which nobody can
 * scrape. The file appears whole: whoever reads it meanwhile sees the one before.
 */
export async function writeLedgerMetrics(file: string, found: VerifiedLedger): Promise<void> {
  const registry = new Registry()
  new LedgerMetrics(registry).onVerified(found, systemClock.now())
  await writeFile(`${file}.new`, await registry.metrics(), { mode: 0o644 })
  await rename(`${file}.new`, file)
}
