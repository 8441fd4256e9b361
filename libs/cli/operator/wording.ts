import {
  describeFreezeCause,
  type DispatchEpoch,
  type ItemFreeze,
  type ItemStatus,
  type ShownMoney,
} from '../../outbox/index.js'

/** Returns a text such as `12.50 EUR to ••••3000`, as far as the field classes of the rail allow. */
export function describeMoney({ amount, currency, destination, destinationWithheld }: ShownMoney): string {
  const money = amount === null ? 'an amount that is not shown' : `${amount}${currency === null ? '' : ` ${currency}`}`
  return `${money} to ${destination ?? describeWithheld(destinationWithheld)}`
}

/** Returns a text such as `2.50 EUR`, the sum of the returns. */
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

const REMEDY =
  'Compare the ledger with the rail’s records (docs/operate/restore.md), then: symphony freeze lift --reason "…"'

/** Returns lines that explain a freeze and its remedy; none while dispatch is open. */
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
