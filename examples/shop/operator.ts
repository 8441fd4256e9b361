// Resolves held payments by the statement of the bank. The actor is the login, which needs symphony_control.
import { Symphony } from 'symphony-pg'
import { findInStatement } from './bank.js'

await using ada = new Symphony({ url: process.env['ADA_URL']! })
for await (const { outboxId } of ada.operator.holds({ railType: 'SEPA' })) {
  const found = await findInStatement(outboxId)
  if (!found) continue
  const reason = 'in the statement of 16 November'
  const decision = { outboxId, decision: 'DISPATCHED', railReference: found.id, reason } as const
  const { proposalId } = await ada.operator.resolveHold(decision)
  // Ada cannot approve her own proposal: APPROVAL_REQUIRED.
  console.log(`another operator runs: grace.operator.approve({ proposalId: '${proposalId}' })`)
}
