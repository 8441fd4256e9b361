import { breakOfRow, type LedgerBreak } from './breaks.js'
import type { Link } from './chain.js'

/** Follows each chain from link to link. Takes them as they come: chain after chain, each in order. */
export async function* verifyLinks(links: AsyncIterable<Link>, onLink: () => void): AsyncGenerator<LedgerBreak> {
  let before: Link | undefined
  let ended = false
  for await (const link of links) {
    onLink()
    const previous = before !== undefined && isSameChain(before, link) ? before : undefined
    const why = linkDefect(link, previous)
    if (why !== undefined) yield breakOfRow(link, null, why)
    if (previous === undefined) ended = false
    if (link.ends && ended) yield breakOfRow(link, null, 'ends what had ended')
    ended ||= link.ends
    before = link
  }
}

/** What is wrong with a link behind the one before it, if there is one. */
export function linkDefect(link: Link, previous: Pick<Link, 'number' | 'rowHash'> | undefined): string | undefined {
  if (previous === undefined && link.kind === 'attempt') return 'no identity'
  if (link.kind === 'identity') return undefined
  if (link.number !== (previous?.number ?? 0n) + 1n) return 'number missing: what comes before it is gone'
  return link.prevHash === (previous?.rowHash ?? null) ? undefined : 'does not follow its predecessor'
}

/** An identity and the attempts of its item are one chain; the events of an item or scope are another. */
function isSameChain(left: Link, right: Link): boolean {
  return left.subject === right.subject && (left.kind === 'event') === (right.kind === 'event')
}
