import { signal } from '@preact/signals'
import type { Me, Status } from '../../http/index.js'
import { readMe, readStatus } from './api.js'
import { pause } from './clock.js'
import { problemOf, type ShownProblem } from './client.js'
import { shortCount, plural } from './format.js'
import { me } from './me.js'
import { onServerEvent } from './stream.js'

/** Counts of the queue, for the overview and the badges of the navigation. The server pushes them. */
export const status = signal<Status | null>(null)
export const statusProblem = signal<ShownProblem | null>(null)

/** Number of items that need a person, shown in the navigation beside the page that lists them. */
interface Badge {
  readonly count: string
  readonly tone: 'bad' | 'held'
  /** Text after the number for screen readers. */
  readonly meaning: string
}

export const navBadges = signal<Readonly<Record<string, Badge>>>({})

/** Interval of requests for the status, besides the pushed events. */
const ASK_EVERY_MS = 15_000

export async function followStatus(stop: AbortSignal): Promise<void> {
  const unsubscribe = onServerEvent(({ type, data }) => {
    if (type === 'status') accept(parseStatus(data))
    if (type === 'reconnected') void refreshStatus(stop)
  })
  stop.addEventListener('abort', () => {
    unsubscribe()
    // Discards the data, because the next credential may not have the right to see it.
    status.value = null
    statusProblem.value = null
    me.value = null
    navBadges.value = {}
  })
  while (!stop.aborted) {
    await refreshStatus(stop)
    await pause(ASK_EVERY_MS, stop)
  }
}

/** Reads the identity before the status, because only some credentials may read the status. */
export async function refreshStatus(stop: AbortSignal = new AbortController().signal): Promise<void> {
  try {
    me.value ??= await readMe(stop)
    if (seesAll(me.value)) accept(await readStatus(stop))
    else statusProblem.value = null
  } catch (error) {
    if (!stop.aborted) statusProblem.value = problemOf(error)
  }
}

function seesAll({ participants, scopes }: Me): boolean {
  return participants === null && scopes.includes('read')
}

function parseStatus(data: string): Status {
  const given: Status = JSON.parse(data)
  return given
}

function accept(given: Status): void {
  status.value = given
  statusProblem.value = null
  const { queue } = given
  const firing = given.alerts.filter(({ state }) => state === 'firing').length
  navBadges.value = {
    '': { count: shortCount(firing), tone: 'bad', meaning: plural(firing, 'alert fires', 'alerts fire') },
    // Counts only the last hour, because older dead letters mostly need no action. Cancelled payments are not dead
    // letters.
    dlq: {
      count: shortCount(
        Number(queue.failedLastHour) - Number(queue.cancelledLastHour) - Number(queue.messages.deadLastHour),
      ),
      tone: 'bad',
      meaning: 'in the last hour',
    },
    holds: {
      count: shortCount(Number(queue.heldCount) - Number(queue.messages.heldCount)),
      tone: 'held',
      meaning: 'waiting',
    },
    contradictions: { count: shortCount(queue.unreviewedContradictionCount), tone: 'bad', meaning: 'to review' },
  }
}
