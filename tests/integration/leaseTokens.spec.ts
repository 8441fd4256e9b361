import { expect, test } from 'vitest'
import { createTestDatabase } from '../support/database.js'
import { runLeaseStress } from '../support/leaseStress.js'

/**
 * Number of tokens. `SYMPHONY_TEST_LEASE_TOKENS=100000 npx vitest run tests/integration/leaseTokens.spec.ts` is the
 * long form.
 */
const TOKENS = Number(process.env['SYMPHONY_TEST_LEASE_TOKENS'] ?? 400)

test(
  'fencing tokens of a resource grow strictly through renewals, takeovers, kills and purges',
  { timeout: 30_000 + TOKENS * 10 },
  async () => {
    await using db = await createTestDatabase({ countBranches: false })
    const options = { tokens: TOKENS, processes: 2, tokensPerKill: Math.max(200, TOKENS / 50) }
    const { notGreater, unrecorded, ...counts } = await runLeaseStress(db, options)
    expect({ notGreater, unrecorded }).toEqual({ notGreater: [], unrecorded: [] })
    expect(counts.issued).toBeGreaterThanOrEqual(TOKENS)
    expect(counts.kills).toBe(Math.floor(TOKENS / options.tokensPerKill))
    expect(counts.expired).toBeGreaterThan(0)
    expect(counts.removed).toBeGreaterThan(0)
  },
)
