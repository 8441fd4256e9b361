import type { Queryable } from '../db/index.js'
import { attemptBreak, eventBreak, identityBreak, type AttemptLink, type ChainBreak } from './chain.js'
import { readAttempts, readEventPage, readIdentityPage } from './db.js'

export interface ChainReport {
  readonly identities: number
  readonly attempts: number
  readonly events: number
  /** The first hundred. */
  readonly breaks: readonly ChainBreak[]
  readonly breakCount: number
}

/** Recomputes every hash of the ledger, page by page, and names each place where a chain breaks. */
export async function verifyChain(role: Queryable): Promise<ChainReport> {
  const tally = new BreakTally()
  const { identities, attempts } = await verifyItems(role, tally)
  const events = await verifyEvents(role, tally)
  return { identities, attempts, events, breaks: tally.shown, breakCount: tally.count }
}

async function verifyItems(role: Queryable, tally: BreakTally): Promise<{ identities: number; attempts: number }> {
  let identities = 0
  let attempts = 0
  for (let afterId: string | null = null; ;) {
    const page = await readIdentityPage(role, afterId, PAGE_SIZE)
    const byItem = groupByItem(
      await readAttempts(
        role,
        page.map(({ outboxId }) => outboxId),
      ),
    )
    for (const identity of page) {
      tally.add(identityBreak(identity))
      let previous = { attemptNo: 0, hash: identity.rowHash }
      for (const attempt of byItem.get(identity.outboxId) ?? []) {
        tally.add(attemptBreak(attempt, previous))
        previous = { attemptNo: attempt.attemptNo, hash: attempt.rowHash }
        attempts += 1
      }
    }
    identities += page.length
    if (page.length < PAGE_SIZE) return { identities, attempts }
    afterId = page.at(-1)?.outboxId ?? null
  }
}

async function verifyEvents(role: Queryable, tally: BreakTally): Promise<number> {
  let events = 0
  let last: { subject: string; eventNo: string; hash: string | null } | null = null
  for (;;) {
    const page = await readEventPage(role, last, PAGE_SIZE)
    for (const event of page) {
      const previous: { eventNo: string; hash: string | null } = last?.subject === event.subject ? last : FIRST_EVENT
      tally.add(eventBreak(event, previous))
      last = { subject: event.subject, eventNo: event.eventNo, hash: event.rowHash }
    }
    events += page.length
    if (page.length < PAGE_SIZE) return events
  }
}

function groupByItem(attempts: readonly AttemptLink[]): Map<string, AttemptLink[]> {
  const byItem = new Map<string, AttemptLink[]>()
  for (const attempt of attempts) {
    const group = byItem.get(attempt.outboxId)
    if (group === undefined) byItem.set(attempt.outboxId, [attempt])
    else group.push(attempt)
  }
  return byItem
}

class BreakTally {
  readonly shown: ChainBreak[] = []
  count = 0

  add(found: ChainBreak | undefined): void {
    if (found === undefined) return
    this.count += 1
    if (this.shown.length < BREAKS_SHOWN_MAX) this.shown.push(found)
  }
}

const PAGE_SIZE = 2_000
const BREAKS_SHOWN_MAX = 100
const FIRST_EVENT = { eventNo: '0', hash: null }
