import type { Step } from './steps.js'
import type { Job, WorldState } from './worldState.js'

/**
 * Describes a step that was run.
 *
 * @param before work of the step's worker before the step
 * @param after state after the step
 * @param isSwapped whether the two workers have exchanged their numbers
 */
export function describeStep(step: Step, before: Job | null, after: WorldState, isSwapped: boolean): string {
  if ('worker' in step) {
    const worker = `worker ${(step.worker === 0) === isSwapped ? 2 : 1}`
    return `${worker} ${describeWork(step, before, after)}`
  }
  if (!('item' in step)) return GLOBAL[step.do]
  const item = `item ${step.item + 1}`
  switch (step.do) {
    case 'expire':
      return `the lease of ${item} expires`
    case 'hold':
      return `a person holds ${item}`
    case 'withdraw':
      return `a person withdraws the proposal for ${item}`
    case 'redrive':
      return `the first person proposes a redrive of ${item}`
    case 'cancel':
      return `the application cancels ${item}`
    case 'decide':
      return `the first person decides ${step.decision} for ${item}`
    case 'approve':
      return `the ${step.person === 0 ? 'same' : 'second'} person approves the proposal for ${item}`
  }
}

const GLOBAL = {
  repair: 'repair records the expired leases',
  freeze: 'an operator freezes dispatch',
  heartbeat: 'a heartbeat finds the freeze and marks the pending items as unknown',
  lift: 'an operator lifts the freeze',
  restore: 'an older copy of the database, without leases and outcomes, is restored, and dispatch freezes',
  resume: 'an operator resumes the stream',
} as const

function describeWork(
  step: Extract<Step, { worker: 0 | 1 }>,
  before: Job | null,
  { outbox, jobs }: WorldState,
): string {
  const job = jobs[step.worker]
  const index = (before ?? job)?.item
  if (index === undefined) return 'claims and gets nothing'
  const name = `item ${index + 1}`
  const { terminal, hold, rail } = outbox.items[index]!
  switch (step.do) {
    case 'claim':
      return `claims ${name}${job!.unknown ? ', whose outcome is unknown' : ''}`
    case 'renew':
      return job === null ? `cannot renew its lease of ${name} and gives up` : `renews its lease of ${name}`
    case 'release':
      return `releases ${name}`
    case 'start':
      if (job === null) return hold === null ? `may not call the rail for ${name}` : `holds ${name}`
      if (job.phase === 'sending') return `starts its call to the ${rail} rail for ${name}`
      return before!.paidLate ? `uses the late success of ${name}` : `asks the rail about ${name}: ${job.answer}`
    case 'inquireInVain':
      return `asks the rail about ${name} and gets no answer`
    case 'send':
      return `sends the request for ${name}; the rail ${step.rail}`
    case 'timeout':
      return `records a timeout for ${name}, whose request has not left yet`
    case 'record':
      return `hands in its answer for ${name}: ${before!.answer}${terminal === null ? '' : `; the item is ${terminal}`}`
    case 'crash':
      return `crashes with ${name}`
  }
}
