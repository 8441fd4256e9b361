import type { Decision } from '../fuzz/outboxRules.js'

/** Action of a rail on a request, and the answer that its worker gets. */
export type RailEvent = 'pays' | 'pays, answer lost' | 'refuses' | 'is busy' | 'never gets it'

/** One step of the world. Workers are 0 and 1; items are numbered by their position in the list of items. */
export type Step =
  | { readonly do: 'claim' | 'renew' | 'release' | 'start' | 'timeout' | 'record' | 'crash'; readonly worker: 0 | 1 }
  /** Like `start`, but the inquiry gets no answer. */
  | { readonly do: 'inquireInVain'; readonly worker: 0 | 1 }
  | { readonly do: 'send'; readonly worker: 0 | 1; readonly rail: RailEvent }
  | { readonly do: 'expire' | 'hold' | 'withdraw' | 'redrive' | 'cancel'; readonly item: number }
  | { readonly do: 'decide'; readonly item: number; readonly decision: Decision }
  | { readonly do: 'approve'; readonly item: number; readonly person: 0 | 1 }
  | { readonly do: 'repair' | 'freeze' | 'heartbeat' | 'lift' | 'restore' | 'resume' }

/** Two payments, and one redrive of one of them. */
export const ITEMS_MAX = 3

const WORKER_STEPS = ['claim', 'renew', 'release', 'start', 'inquireInVain', 'timeout', 'record', 'crash'] as const
const RAIL_EVENTS: readonly RailEvent[] = ['pays', 'pays, answer lost', 'refuses', 'is busy', 'never gets it']
const ITEM_STEPS = ['expire', 'hold', 'withdraw', 'redrive', 'cancel'] as const
const DECISIONS: readonly Decision[] = ['DISPATCHED', 'FAILED', 'RETRY']
const GLOBAL_STEPS = ['repair', 'freeze', 'heartbeat', 'lift', 'restore', 'resume'] as const

/** Every step. A trace names a step by its index in this list. */
export const STEPS: readonly Step[] = buildSteps()

function buildSteps(): Step[] {
  const steps: Step[] = []
  for (const worker of [0, 1] as const) {
    for (const name of WORKER_STEPS) steps.push({ do: name, worker })
    for (const rail of RAIL_EVENTS) steps.push({ do: 'send', worker, rail })
  }
  for (let item = 0; item < ITEMS_MAX; item += 1) {
    for (const name of ITEM_STEPS) steps.push({ do: name, item })
    for (const decision of DECISIONS) steps.push({ do: 'decide', item, decision })
    for (const person of [0, 1] as const) steps.push({ do: 'approve', item, person })
  }
  for (const name of GLOBAL_STEPS) steps.push({ do: name })
  return steps
}
