import { pathTo } from '../../app/pathTo.js'

interface AlertPage {
  readonly title: string
  readonly href: string
}

const PAGES: ReadonlyMap<string, AlertPage> = new Map([
  ['SymphonyOldestPendingAge', { title: 'Due payments', href: pathTo(['payments'], { state: 'DUE' }) }],
  ['SymphonyOldestUnfinishedAge', { title: 'Payments', href: pathTo(['payments']) }],
  ['SymphonyDispatchFrozen', { title: 'Why it is frozen, and how to lift the freeze', href: pathTo(['dispatch']) }],
  ['SymphonyAllPaused', { title: 'Who paused it, and how to resume', href: pathTo(['dispatch']) }],
  ['SymphonyDlqGrowing', { title: 'Dead letters', href: pathTo(['dlq']) }],
  [
    'SymphonyExpiredLeases',
    { title: 'Payments with an expired lease', href: pathTo(['payments'], { state: 'EXPIRED' }) },
  ],
  ['SymphonyRetryableSpike', { title: 'Scheduled retries', href: pathTo(['payments'], { state: 'SCHEDULED' }) }],
  ['SymphonyPaymentsHeld', { title: 'Holds', href: pathTo(['holds']) }],
  ['SymphonyOutcomeNotDelivered', { title: 'Held messages', href: pathTo(['holds'], { kind: 'message' }) }],
  ['SymphonyMessagesHeld', { title: 'Held messages', href: pathTo(['holds'], { kind: 'message' }) }],
  ['SymphonyMessagesLate', { title: 'Due messages', href: pathTo(['payments'], { kind: 'message', state: 'DUE' }) }],
  ['SymphonyMessagesFailed', { title: 'Failed messages', href: pathTo(['dlq'], { kind: 'message' }) }],
  ['SymphonyEndingContradicted', { title: 'Contradictions', href: pathTo(['contradictions']) }],
  ['SymphonyInboxDead', { title: 'Dead messages', href: pathTo(['inbox'], { state: 'dead' }) }],
  ['SymphonySchedulerLate', { title: 'Jobs and timers', href: pathTo(['scheduler']) }],
])

/** Returns the page that shows the cause of an alert; undefined without one. */
export function pageForAlert(alert: string): AlertPage | undefined {
  return PAGES.get(alert)
}
