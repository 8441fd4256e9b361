import type { Call, Entry, Grant } from './history.js'

/** Final rows of the tables that the history must explain. */
export interface FinalState {
  readonly items: readonly {
    readonly outboxId: string
    readonly key: string
    readonly participant: string
    readonly sequenceId: bigint
  }[]
  readonly attempts: readonly {
    readonly outboxId: string
    readonly attemptNo: number
    readonly state: string
    readonly leaseToken: string | null
  }[]
}

type Of<K extends Call['kind']> = Entry & { readonly call: Extract<Call, { kind: K }> }

/**
 * Returns contradictions between a history and a model in which every call takes effect at one instant between its
 * start and its answer. The model covers only what clients observe: one item per key, one live lease per item, one
 * terminal outcome, and growing numbers.
 */
export function anomaliesOf(history: readonly Entry[], state: FinalState): readonly string[] {
  const ok = <K extends Call['kind']>(kind: K): Of<K>[] =>
    history.filter((entry): entry is Of<K> => isA(entry, kind) && entry.outcome === 'ok')
  const tried = <K extends Call['kind']>(kind: K): Of<K>[] =>
    history.filter(
      (entry): entry is Of<K> => isA(entry, kind) && (entry.outcome === 'ok' || entry.outcome === 'unknown'),
    )
  const grants = ok('claim').flatMap((entry) =>
    (entry.call.answer ?? []).map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, entry })),
  )
  const terminal = ok('complete').filter(({ call }) => isTerminal(call.answer?.state))
  const grantsByItem = groupGrants(grants)
  return [
    ...oneItemPerKey(ok('enqueue'), state),
    ...numbersGrow(
      ok('enqueue').filter(({ call }) => call.answer?.created === true),
      ({ call }) => ({ of: call.participant, number: call.answer!.sequenceId }),
    ).map((found) => `sequence ${found}`),
    ...numbersGrow(
      ok('acquire').filter(({ call }) => call.answer !== undefined),
      ({ call }) => ({ of: call.resource, number: call.answer! }),
    ).map((found) => `fencing token ${found}`),
    ...numbersGrow(ok('complete'), ({ call }) => ({
      of: call.outboxId,
      number: BigInt(call.answer?.attemptNo ?? 0),
    })).map((found) => `attempt ${found}`),
    ...duplicates(grants.map(({ leaseToken }) => leaseToken)).map((token) => `token ${token} was granted twice`),
    ...duplicates(ok('complete').map(({ call }) => call.leaseToken)).map(
      (token) => `token ${token} recorded two outcomes`,
    ),
    ...duplicates(terminal.map(({ call }) => call.outboxId)).map((id) => `${id} has two terminal outcomes`),
    ...sharedLeases(grantsByItem, history),
    ...acceptedStaleLeases([...ok('complete'), ...ok('renew')], grantsByItem),
    ...terminal.flatMap((completed) =>
      grants
        .filter(({ outboxId, entry }) => outboxId === completed.call.outboxId && entry.invoked > completed.returned)
        .map(({ outboxId }) => `${outboxId} was claimed after its terminal outcome`),
    ),
    ...unexplainedRows(state, ok('complete'), tried('complete')),
  ]
}

function oneItemPerKey(enqueues: readonly Of<'enqueue'>[], { items }: FinalState): readonly string[] {
  const found: string[] = []
  for (const { key, outboxId, sequenceId } of items) {
    const ofKey = enqueues.filter(({ call }) => call.key === key)
    if (ofKey.some(({ call }) => call.answer?.outboxId !== outboxId || call.answer.sequenceId !== sequenceId))
      found.push(`${key}: clients got different items`)
    if (ofKey.filter(({ call }) => call.answer?.created).length > 1) found.push(`${key} was created twice`)
  }
  found.push(...duplicates(items.map(({ key }) => key)).map((key) => `${key} has two items`))
  for (const { call } of enqueues) {
    if (items.every(({ key }) => key !== call.key)) found.push(`${call.key} was enqueued and is missing`)
  }
  for (const participant of new Set(items.map((item) => item.participant))) {
    const numbers = items.filter((item) => item.participant === participant).map(({ sequenceId }) => Number(sequenceId))
    const sorted = numbers.toSorted((left, right) => left - right)
    if (sorted.some((number, index) => number !== index + 1))
      found.push(`${participant}: the sequence has gaps: ${sorted.join(' ')}`)
  }
  return found
}

/**
 * Checks that numbers are unique. A call that was answered before another call started must have the smaller number.
 */
function numbersGrow<E extends Entry>(
  entries: readonly E[],
  read: (entry: E) => { readonly of: string; readonly number: bigint },
): readonly string[] {
  const found: string[] = []
  const numbered = entries
    .map((entry) => ({ entry, ...read(entry) }))
    .toSorted((left, right) => (left.number < right.number ? -1 : 1))
  for (const group of groupedBy(numbered, ({ of }) => of)) {
    // No call may start after a call with a greater number was answered.
    let earliestAnswer = Number.POSITIVE_INFINITY
    for (const [index, { entry, of, number }] of [...group.entries()].toReversed()) {
      if (entry.invoked > earliestAnswer) found.push(`${number} of ${of} was issued after a greater one`)
      if (group[index - 1]?.number === number) found.push(`${number} of ${of} was issued twice`)
      earliestAnswer = Math.min(earliestAnswer, entry.returned)
    }
  }
  return found
}

type Granted = Grant & { readonly entry: Entry }

/** Groups the grants by item, in the order of their claims. */
function groupGrants(grants: readonly Granted[]): ReadonlyMap<string, readonly Granted[]> {
  const groups = groupedBy(grants, ({ outboxId }) => outboxId)
  return new Map(
    groups.map((group) => [
      group[0]!.outboxId,
      group.toSorted((left, right) => left.entry.returned - right.entry.returned),
    ]),
  )
}

/** Finds two live leases on one item. */
function sharedLeases(
  grantsByItem: ReadonlyMap<string, readonly Granted[]>,
  history: readonly Entry[],
): readonly string[] {
  const found: string[] = []
  for (const [outboxId, granted] of grantsByItem) {
    for (const [index, next] of granted.entries()) {
      const before = granted[index - 1]
      if (before === undefined || before.entry.returned > next.entry.invoked) continue
      const mayHaveEnded = history.some(
        ({ call, invoked, returned, outcome }) =>
          invoked < next.entry.returned &&
          returned > before.entry.invoked &&
          (outcome === 'ok' || outcome === 'unknown') &&
          ((call.kind === 'expire' && call.outboxId === outboxId) ||
            ((call.kind === 'complete' || call.kind === 'release') && call.leaseToken === before.leaseToken) ||
            // A claim whose answer was lost may have leased the item, and its lease may have expired since.
            (call.kind === 'claim' && outcome === 'unknown')),
      )
      if (!mayHaveEnded) found.push(`${outboxId} had two live leases`)
    }
  }
  return found
}

/** Finds leases that were accepted after another claim of the item was answered. */
function acceptedStaleLeases(
  used: readonly (Of<'complete'> | Of<'renew'>)[],
  grantsByItem: ReadonlyMap<string, readonly Granted[]>,
): readonly string[] {
  const found: string[] = []
  for (const { call, invoked } of used) {
    const granted = grantsByItem.get(call.outboxId) ?? []
    const own = granted.findIndex(({ leaseToken }) => leaseToken === call.leaseToken)
    if (own < 0) {
      found.push(`${call.kind} was accepted with a token that no claim returned`)
      continue
    }
    const ownEntry = granted[own]!.entry
    const later = granted.find(({ entry }) => entry.invoked > ownEntry.returned && entry.returned < invoked)
    if (later !== undefined) found.push(`${call.kind} of ${call.outboxId} was accepted after another claim`)
  }
  return found
}

/** Compares the ledger with the answers: it must have each recorded outcome once, and no other outcome. */
function unexplainedRows(
  { attempts }: FinalState,
  ok: readonly Of<'complete'>[],
  tried: readonly Of<'complete'>[],
): readonly string[] {
  const found: string[] = []
  for (const { call } of ok) {
    const rows = attempts.filter(
      ({ leaseToken, state }) => leaseToken === call.leaseToken && state !== 'ZOMBIE_REQUEUE',
    )
    const row = rows[0]
    if (rows.length !== 1 || row?.attemptNo !== call.answer?.attemptNo || row?.state !== call.answer?.state)
      found.push(`the outcome of ${call.leaseToken} differs between ledger and answer`)
  }
  const explained = new Set(tried.map(({ call }) => call.leaseToken))
  for (const { leaseToken, state, outboxId } of attempts) {
    if (state !== 'ZOMBIE_REQUEUE' && !explained.has(leaseToken ?? ''))
      found.push(`${outboxId}: a ${state} that no client recorded`)
  }
  for (const group of groupedBy(attempts, ({ outboxId }) => outboxId)) {
    const numbers = group.map(({ attemptNo }) => attemptNo).toSorted((left, right) => left - right)
    if (numbers.some((number, index) => number !== index + 1))
      found.push(`${group[0]!.outboxId}: attempts ${numbers.join(' ')}`)
    if (group.filter(({ state }) => isTerminal(state)).length > 1)
      found.push(`${group[0]!.outboxId}: two terminal outcomes in the ledger`)
  }
  return found
}

function isA<K extends Call['kind']>(entry: Entry, kind: K): entry is Of<K> {
  return entry.call.kind === kind
}

function isTerminal(state: string | undefined): boolean {
  return state === 'DISPATCHED' || state === 'FAILED'
}

function duplicates(values: readonly string[]): readonly string[] {
  return values.filter((value, index) => values.indexOf(value) !== index)
}

function groupedBy<T>(values: readonly T[], key: (value: T) => string): readonly T[][] {
  const groups = new Map<string, T[]>()
  for (const value of values) {
    const group = groups.get(key(value))
    if (group === undefined) groups.set(key(value), [value])
    else group.push(value)
  }
  return [...groups.values()]
}
