import type { ShownMoney } from '../outbox/index.js'

/** `12.50 EUR to ••••3000`, as far as the field classes of the rail allow. */
export function describeMoney({ amount, currency, destination, destinationWithheld }: ShownMoney): string {
  const money = amount === null ? 'an amount that is not shown' : `${amount}${currency === null ? '' : ` ${currency}`}`
  return `${money} to ${destination ?? describeWithheld(destinationWithheld)}`
}

function describeWithheld(why: ShownMoney['destinationWithheld']): string {
  if (why === null) return 'no destination'
  return why === 'undeclared'
    ? 'a destination that is not shown (no worker has declared the rail)'
    : `a destination that is not shown (${why})`
}
