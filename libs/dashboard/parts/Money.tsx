import type { OutboxItem } from '../../http/index.js'

/** Amount, currency and destination of a payload, as far as the rail's field classes allow the API to show them. */
export type ShownMoney = Pick<OutboxItem, 'amount' | 'currency' | 'destination' | 'destinationWithheld'>

const WITHHELD = {
  encrypted: 'encrypted',
  forbidden: 'not shown: forbidden field',
  undeclared: 'not shown: no worker has declared the rail',
}

export function Amount({ of: { amount, currency } }: { readonly of: Pick<ShownMoney, 'amount' | 'currency'> }) {
  if (amount === null) return <span class="quiet">not shown</span>
  return (
    <span class="amount">
      {grouped(amount)} {currency}
    </span>
  )
}

export function Destination({ of: { destination, destinationWithheld } }: { readonly of: ShownMoney }) {
  if (destination !== null) return <span class="mono">{destination}</span>
  return <span class="quiet">{destinationWithheld === null ? 'none' : WITHHELD[destinationWithheld]}</span>
}

/** Amount and destination in one line: `12.50 EUR to ••••3000` or `12.50 EUR, destination encrypted`. */
export function Money({ of }: { readonly of: ShownMoney }) {
  return (
    <>
      <Amount of={of} />
      <span class="quiet">{of.destination === null ? ', destination' : ' to'}</span> <Destination of={of} />
    </>
  )
}

/** Amount and destination for the tooltip of a cell that may cut them off. */
export function moneyTitle({ amount, currency, destination }: ShownMoney): string {
  return amount === null ? '' : `${grouped(amount)} ${currency} ${destination ?? ''}`
}

/**
 * Returns `1 234 567.50` with narrow spaces, which are clear in every language. The amount stays text, so that no digit
 * is lost.
 */
export function grouped(amount: string): string {
  const [whole = '', fraction] = amount.split('.')
  const digits = whole.replaceAll(/\B(?=(?:\d{3})+$)/g, '\u202F')
  return fraction === undefined ? digits : `${digits}.${fraction}`
}
