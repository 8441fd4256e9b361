import { signal } from '@preact/signals'
import type { Status } from '../../http/index.js'
import { attention } from '../app/attention.js'
import { readMe, readStatus } from './api.js'
import { pause } from './clock.js'
import { problemOf, type ShownProblem } from './client.js'
import { count } from './format.js'
import { me } from './me.js'
import { onServerEvent } from './stream.js'

/** The queue at a glance, for the overview and for the numbers beside the navigation: pushed by the server. */
export const status = signal<Status | null>(null)
export const statusProblem = signal<ShownProblem | null>(null)

/** Where nobody pushes, for whatever reason, it is asked for this often. */
const ASK_EVERY_MS = 15_000

export async function followStatus(stop: AbortSignal): Promise<void> {
  const forget = onServerEvent(({ type, data }) => {
    if (type === 'status') accept(parseStatus(data))
    if (type === 'reconnected') void refreshStatus(stop)
  })
  stop.addEventListener('abort', () => {
    forget()
    // Whoever signs in next may see other things.
    status.value = null
    statusProblem.value = null
    me.value = null
    attention.value = {}
  })
  void learnWhoIAm(stop)
  while (!stop.aborted) {
    await refreshStatus(stop)
    await pause(ASK_EVERY_MS, stop)
  }
}

export async function refreshStatus(stop: AbortSignal = new AbortController().signal): Promise<void> {
  try {
    accept(await readStatus(stop))
  } catch (error) {
    if (!stop.aborted) statusProblem.value = problemOf(error)
  }
}

async function learnWhoIAm(stop: AbortSignal): Promise<void> {
  for (; !stop.aborted; await pause(ASK_EVERY_MS, stop)) {
    try {
      me.value = await readMe(stop)
      return
    } catch {
      // Without an answer nobody is known, and no action is offered. The pages say what is wrong.
    }
  }
}

function parseStatus(data: string): Status {
  const given: Status = JSON.parse(data)
  return given
}

function accept(given: Status): void {
  status.value = given
  statusProblem.value = null
  attention.value = {
    dlq: { count: count(given.queue.dlqDepth), tone: 'bad' },
    holds: { count: count(given.queue.heldCount), tone: 'held' },
  }
}
