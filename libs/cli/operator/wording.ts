import {
  describeFreezeCause,
  type DispatchEpoch,
  type ItemFreeze,
  type ItemStatus,
  type PauseKind,
  type PauseView,
  type ShownMoney,
} from '../../outbox/index.js'
import type { Finding, FindingEntry, FindingPayment } from '../../reconciliation/index.js'
import type { Terminal } from '../terminal/Terminal.js'

type Colors = Terminal['colors']

/** Returns lines with the payment and the bank entries of a finding. */
export function describeFinding(
  { findingId, kind, severity, outboxId, payment, entries, proposalId, returnEventId, note, closed }: Finding,
  { bold, dim, red, yellow }: Colors,
): readonly string[] {
  const color = severity === 'critical' ? red : severity === 'warning' ? yellow : dim
  const subject = payment === null ? '' : ` ${payment.instructionId}, payment ${outboxId}`
  return [
    `${color(severity)} ${kind.replaceAll('_', ' ')}${subject}${findingId === null ? '' : `  ${bold(findingId)}`}`,
    ...(payment === null ? [] : [`  ${dim('ledger')} ${describeLedgerSide(payment)}`]),
    ...(entries.length === 0 ? [`  ${dim('bank')}   no debit`] : []),
    ...entries.map((entry) => `  ${dim('bank')}   ${describeBankSide(entry)}`),
    ...(proposalId === null
      ? []
      : [`  ${dim('proposed')} DISPATCHED; two people approve: symphony approve ${proposalId}`]),
    ...(returnEventId === null ? [] : [`  ${dim('recorded')} as a return`]),
    ...(note === null ? [] : [`  ${dim('note')} ${note}`]),
    ...(closed === null ? [] : [`  ${dim('closed')} at ${closed.at} by ${closed.by}: ${closed.reason}`]),
  ]
}

function describeLedgerSide({ state, amount, currency, railReference, completedAt }: FindingPayment): string {
  const money = amount === null ? 'an encrypted amount' : `${amount} ${currency}`
  const reference = railReference === null ? '' : `, rail reference ${railReference}`
  return `${state} ${money}${completedAt === null ? '' : ` at ${completedAt}`}${reference}`
}

function describeBankSide({ kind, amount, currency, bookedOn, bankReference, account }: FindingEntry): string {
  const word = kind === 'payout' ? 'debit' : kind === 'reversal' ? 'reversal' : 'debit marked as a reversal'
  const money = amount === null ? 'without an amount' : `of ${amount} ${currency}`
  const reference = bankReference === null ? '' : `, bank reference ${bankReference}`
  return `${word} ${money} on ${bookedOn ?? 'an unknown day'}${reference}${account === null ? '' : `, account ${account}`}`
}

/** Returns a text such as `12.50 EUR to ••••3000`, as far as the rail's field classes allow. */
export function describeMoney({ amount, currency, destination, destinationWithheld }: ShownMoney): string {
  const money = amount === null ? 'an amount that is not shown' : `${amount}${currency === null ? '' : ` ${currency}`}`
  return `${money} to ${destination ?? describeWithheld(destinationWithheld)}`
}

/** Returns the total amount that the rail returned, such as `2.50 EUR`. */
export function describeReturned({
  returnedAmount,
  currency,
}: Pick<ItemStatus, 'returnedAmount' | 'currency'>): string {
  if (returnedAmount === null) return 'an amount that is not shown'
  return `${returnedAmount}${currency === null ? '' : ` ${currency}`}`
}

function describeWithheld(why: ShownMoney['destinationWithheld']): string {
  if (why === null) return 'no destination'
  return why === 'undeclared'
    ? 'a destination that is not shown (no worker has declared the rail)'
    : `a destination that is not shown (${why})`
}

/** Returns a subject such as `The rail sepa`, or `Everything`. */
export function pauseSubject(kind: PauseKind, name: string): string {
  return kind === 'all' ? 'Everything' : `The ${kind} ${name}`
}

export function describePause({ kind, name, pausedAt, pausedBy, reason }: PauseView): string {
  return `${pauseSubject(kind, name)} is paused since ${pausedAt} by ${pausedBy}: ${reason}`
}

const REMEDY =
  'Compare the ledger with the rail’s records (docs/operate/restore.md), then: symphony freeze lift --reason "…"'

/** Returns lines that explain a freeze and its remedy; none without a freeze. */
export function describeFreeze(epoch: DispatchEpoch | undefined): readonly string[] {
  if (epoch?.frozen !== true) return []
  const { frozenAt, freezeCause, freezeReason, frozenBy } = epoch
  return [
    `Dispatch is FROZEN since ${frozenAt?.toISOString()}: nothing is sent. Frozen by ${frozenBy}.`,
    `  ${freezeCause}: ${freezeReason}.`,
    `  ${freezeCause === null ? '' : describeFreezeCause(freezeCause)}`,
    `  ${describeMarks(epoch)}`,
    `  ${REMEDY}`,
  ]
}

export function describeMarks({ markedAt, itemsMarked }: DispatchEpoch): string {
  if (markedAt === null) return 'Pending payments are not marked yet: a worker or the lift marks them.'
  return `${itemsMarked} pending payments were marked as of unknown outcome; the policy of each rail decides them.`
}

export function describeItemFreeze({ epochNo, cause, reason, frozenAt }: ItemFreeze): string {
  return `unknown since the freeze of epoch ${epochNo} at ${frozenAt}, ${cause}: ${reason}`
}
