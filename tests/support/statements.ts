import { Readable } from 'node:stream'
import type { Queryable } from '../../libs/db/index.js'
import { FieldVault } from '../../libs/protection/index.js'
import { reconcile, type Reconciliation } from '../../libs/reconciliation/index.js'

/** Returns a statement in NDJSON. */
export function statementOf(lines: readonly object[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

/** Compares a statement of these lines with the ledger of a rail. */
export function reconcileLines(control: Queryable, rail: string, lines: readonly object[]): Promise<Reconciliation> {
  const statement = Readable.from([Buffer.from(statementOf(lines))])
  return reconcile(control, { rail, format: 'ndjson', statement }, { vault: new FieldVault(new Map()) })
}
