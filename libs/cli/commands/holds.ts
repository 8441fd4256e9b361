import { Option, type Command } from 'commander'
import { SymphonyError, InvalidArgumentError } from '../../core/index.js'
import type { Queryable, RoleHandle } from '../../db/index.js'
import {
  noteOutboxItem,
  placeOutboxHold,
  readHeldItems,
  readItems,
  readProposalPage,
  resolveOutboxHold,
  type DecisionResult,
  type HeldItemView,
  type HoldDecision,
  type ItemStatus,
  type ProposalView,
  type ShownMoney,
} from '../../outbox/index.js'
import {
  addOperatorOptions,
  addPaging,
  addSelection,
  asControl,
  decideEach,
  describeRefusals,
  hasFilter,
  printAllRows,
  printResult,
  readSelected,
  reasonOption,
  refuseFilters,
  requiredReason,
  requireKnownNames,
  requireNoRefusal,
  selectionOf,
  tryOut,
} from '../operator/operator.js'
import { describeItemFreeze, describeMoney } from '../operator/wording.js'
import { addExamples } from '../settings/options.js'
import type { GivenFlags } from '../settings/resolveSettings.js'
import type { Cli } from '../terminal/Terminal.js'

export function registerHolds(program: Command, cli: Cli): void {
  const holds = program.command('holds').description('payments held until operators decide').addHelpText('after', HELP)

  addPaging(
    addSelection(
      addOperatorOptions(
        addExamples(
          holds.command('list'),
          'symphony holds list --rail sepa',
          'symphony holds list --assignee bob --json',
        ).description('list held payments and open proposals, newest first'),
      ),
    ).option('--assignee <name>', 'only payments that this person cares for'),
  ).action((flags: GivenFlags) => list(flags, cli))

  addOperatorOptions(
    addExamples(holds.command('place'), 'symphony holds place 01981… --reason "the payee called"')
      .description('hold a pending payment, so that no worker claims it')
      .argument('<outbox-id>'),
  )
    .addOption(reasonOption())
    .action((id: string, flags: GivenFlags) => place(id, flags, cli))

  addOperatorOptions(
    addExamples(holds.command('note'), 'symphony holds note 01981… --note "asked the bank by phone" --assignee bob')
      .description('add a note to a payment in any state, and name who cares for it')
      .argument('<outbox-id>'),
  )
    .option('--note <text>', 'note, stored in the ledger for ever')
    .option('--assignee <name>', 'person who cares for the payment; "" for nobody (default: no change)')
    .action((id: string, flags: GivenFlags) => note(id, flags, cli))

  addSelection(
    addOperatorOptions(
      addExamples(
        holds.command('resolve'),
        'symphony holds resolve 01981… --decision failed --reason "not in the bank’s records" --dry-run',
        'symphony holds resolve 01981… --decision dispatched --rail-reference TX-17 --reason "seen in the report"',
        'symphony holds resolve --all --rail sepa --since 2026-11-19T08:00Z --decision retry --reason "not at the bank" --dry-run',
      )
        .description('resolve held payments: one decision and one reason for all of them')
        .argument('[outbox-id...]'),
    ),
  )
    .option('--all', 'the newest held payments that the options select, without a proposal; at most --limit')
    .option('--yes', 'confirm --all')
    .addOption(
      new Option('--decision <word>', 'dispatched: it was paid; failed: it was not; retry: send it again').choices([
        'dispatched',
        'failed',
        'retry',
      ]),
    )
    .addOption(reasonOption())
    .option('--rail-reference <text>', 'the reference under which the rail paid, with --decision dispatched')
    .option('--dry-run', 'decide in transactions that are rolled back')
    .action((ids: readonly string[], flags: GivenFlags) => resolve(ids, flags, cli))
}

const HELP = `
A decision about money takes two people: one proposes it with "holds resolve", another approves it with
"symphony approve". The login of --database-url is recorded as the actor. Only a retry takes effect at once, unless the
outcome is unknown, a person entered the payment, or the limit that placed the hold requires two people. Without a
filter, or with --participant alone, "holds list" also prints the open proposals of other payments.

Examples:
  symphony deploy --create-login alice=control --create-login bob=control
  symphony holds resolve 01981… --decision dispatched --rail-reference TX-17 --reason "seen in the bank's report"
  symphony approve 01981…`

async function list(flags: GivenFlags, cli: Cli): Promise<void> {
  const { assignee } = flags
  const search = { ...selectionOf(flags), ...(typeof assignee === 'string' ? { assignee } : {}) }
  const { participants, limit: _limit, before: _before, ...otherFilters } = search
  await asControl('holds', flags, cli, async (control) => {
    const read = async (paging: object = {}) => {
      const { items: found, next } = await readHeldItems(control, { ...search, ...paging })
      return { items: found.map(({ item, ...about }) => Object.assign({}, item, about)), next }
    }
    if (await printAllRows(flags, cli, read)) return
    const { items, next } = await requireKnownNames(control, search, await read())
    // Proposals have no filter but the participant. An unfiltered list would show those of other payments.
    const proposals =
      Object.keys(otherFilters).length > 0
        ? []
        : await readProposalPage(control, {
            status: 'OPEN',
            limit: PROPOSALS_LISTED,
            ...(participants === undefined ? {} : { participants }),
          })
    // Open proposals for items that this list does not contain, mostly redrives of failed items.
    const others = proposals.filter(({ outboxId }) => !items.some((item) => item.outboxId === outboxId))
    if (flags['json'] === true) return cli.terminal.printJson({ held: items, otherProposals: others, next })
    if (items.length === 0) cli.terminal.print('No payment is held.')
    for (const item of items) printHeld(item, cli)
    for (const proposal of others) cli.terminal.print(describeProposal(proposal))
    if (next !== null) cli.terminal.note(`There may be more: add --before ${next}`)
  })
}

const PROPOSALS_LISTED = 1_000

function printHeld(item: HeldItemView['item'] & Omit<HeldItemView, 'item'>, { terminal }: Cli): void {
  const { proposal, assignee, latestNote } = item
  const { bold, dim } = terminal.colors
  const unknown = item.outcomeUnknown ? ', outcome unknown' : ''
  terminal.print(`${bold(item.outboxId)} ${item.instructionId} on ${item.railType}${unknown}`)
  terminal.print(`  ${describeMoney(item)}`)
  terminal.print(`  ${dim('held')} since ${item.heldAt} by ${item.heldBy}: ${item.holdReason}`)
  if (item.freeze !== null) terminal.print(`  ${describeItemFreeze(item.freeze)}`)
  if (assignee !== null) terminal.print(`  ${dim('assigned')} to ${assignee}`)
  if (latestNote !== null)
    terminal.print(`  ${dim('note')} by ${latestNote.actor}, ${latestNote.createdAt}: ${latestNote.note}`)
  if (proposal !== null) terminal.print(`  ${describeProposal(proposal)}`)
}

function describeProposal(proposal: ProposalView): string {
  const { proposalId, outboxId, decision, proposedBy, reason } = proposal
  return `${decision} of ${outboxId} (${describeMoney(proposal)}) is proposed by ${proposedBy} (${reason}); someone else can approve it: symphony approve ${proposalId}`
}

async function place(outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const eventId = await asControl('holds', flags, cli, (control) => placeOutboxHold(control, outboxId, reason))
  printResult({ outboxId, eventId }, `${outboxId} is held.`, flags, cli)
}

async function note(outboxId: string, flags: GivenFlags, cli: Cli): Promise<void> {
  const { note: text, assignee } = flags
  if (typeof text !== 'string') throw new InvalidArgumentError('--note', 'expected the text of the note')
  const eventId = await asControl('holds', flags, cli, (control) =>
    noteOutboxItem(control, outboxId, text, typeof assignee === 'string' ? assignee : null),
  )
  printResult({ outboxId, eventId }, `The note on ${outboxId} is recorded.`, flags, cli)
}

async function resolve(ids: readonly string[], flags: GivenFlags, cli: Cli): Promise<void> {
  const reason = requiredReason(flags)
  const decision = decisionOf(flags)
  if ((ids.length === 0) === (flags['all'] !== true)) {
    throw new InvalidArgumentError('outbox-id', 'expected ids of held payments, or --all instead of them')
  }
  if (ids.length > 0) refuseFilters(flags)
  if (decision !== 'DISPATCHED' && flags['railReference'] !== undefined) {
    throw new InvalidArgumentError('--rail-reference', 'expected a reference only with --decision dispatched')
  }
  if (decision === 'DISPATCHED' && (ids.length > 1 || flags['all'] === true)) {
    throw new InvalidArgumentError('--decision', 'dispatched takes one id: each payment has its own --rail-reference')
  }
  await asControl('holds', flags, cli, async (control) => {
    const [only] = ids
    if (only !== undefined && ids.length === 1) return resolveOne(control, only, { decision, reason }, flags, cli)
    return resolveMany(control, ids, { decision, reason }, flags, cli)
  })
}

interface Choice {
  readonly decision: HoldDecision
  readonly reason: string
}

async function resolveOne(
  control: RoleHandle,
  outboxId: string,
  { decision, reason }: Choice,
  flags: GivenFlags,
  cli: Cli,
): Promise<void> {
  const { railReference } = flags
  const reference = typeof railReference === 'string' ? railReference : null
  const resolveHold = (tx: Queryable) => resolveOutboxHold(tx, outboxId, decision, reason, reference)
  if (flags['dryRun'] === true) {
    const secondPerson = (await tryOut(control, resolveHold)).status === 'PROPOSED'
    const consequence = secondPerson ? 'a proposal that someone else must approve' : 'applied at once'
    const sentence = `${decision} of ${outboxId} would be ${consequence}.`
    return printResult({ outboxId, decision, possible: true, secondPerson }, sentence, flags, cli)
  }
  const result = await resolveHold(control)
  printResult({ outboxId, decision, ...result }, describeDecided(decision, { outboxId, ...result }), flags, cli)
}

/** Decides each item in a separate transaction. A decision may need a second person's approval. */
async function resolveMany(
  control: RoleHandle,
  ids: readonly string[],
  { decision, reason }: Choice,
  flags: GivenFlags,
  cli: Cli,
): Promise<void> {
  const { items, more } = await selected(control, ids, flags, cli)
  const outboxIds = items.map(({ outboxId }) => outboxId)
  const listed = items.map((item) => `${item.outboxId} ${item.instructionId}: ${describeMoney(item)}`)
  const further = more ? ' These are the newest; run it again for the others, or raise --limit.' : ''
  const resolveHold = (tx: Queryable, id: string) => resolveOutboxHold(tx, id, decision, reason, null)
  if (flags['dryRun'] === true) {
    const tried = await decideEach(outboxIds, (id) => tryOut(control, (tx) => resolveHold(tx, id)), cli)
    const { done, refused } = tried
    const proposed = done.filter(({ status }) => status === 'PROPOSED').length
    const sentence = `${decision} of ${items.length}: ${proposed} would need the approval of someone else, ${done.length - proposed} would take effect at once, ${refused.length} would be refused.${further}`
    const possible = done.map(({ outboxId }) => outboxId)
    const result = { outboxIds: possible, decision, more, secondPerson: proposed, refused }
    printResult(result, [...listed, ...describeRefusals(tried), sentence].join('\n'), flags, cli)
    return requireNoRefusal('RESOLVE_REFUSED', tried)
  }
  if (flags['all'] === true && flags['yes'] !== true) {
    throw new SymphonyError(
      'CONFIRMATION_MISSING',
      `${decision} of ${items.length} held payments needs a confirmation.`,
      {
        remedy: 'Review them with --dry-run, then add --yes.',
      },
    )
  }
  const decided = await decideEach(outboxIds, (id) => resolveHold(control, id), cli)
  const lines = [...decided.done.map((one) => describeDecided(decision, one)), ...describeRefusals(decided)]
  const result = { decision, decided: decided.done, refused: decided.refused, more }
  printResult(result, items.length === 0 ? 'No held payment matches.' : `${lines.join('\n')}${further}`, flags, cli)
  requireNoRefusal('RESOLVE_REFUSED', decided)
}

interface Selected {
  readonly items: readonly (ShownMoney & Pick<ItemStatus, 'outboxId' | 'instructionId'>)[]
  readonly more: boolean
}

async function selected(control: RoleHandle, ids: readonly string[], flags: GivenFlags, cli: Cli): Promise<Selected> {
  if (ids.length > 0) {
    const items: ItemStatus[] = []
    for (const id of new Set(ids)) items.push(await requiredItem(control, id))
    return { items, more: false }
  }
  const search = selectionOf(flags)
  if (!hasFilter(search)) {
    throw new InvalidArgumentError('--all', 'expected at least one filter: --rail, --participant, --since or --until')
  }
  const found = await readSelected(search, (page) => readHeldItems(control, { ...page, undecided: true }), cli)
  const { items, next } = await requireKnownNames(control, search, found)
  return { items: items.map(({ item }) => item), more: next !== null }
}

function describeDecided(decision: HoldDecision, { outboxId, status, proposalId }: DecidedHold): string {
  return status === 'APPLIED'
    ? `The hold of ${outboxId} is resolved; a worker sends the payment when it is due.`
    : `${decision} of ${outboxId} is proposed. Someone else must approve it: symphony approve ${proposalId}`
}

type DecidedHold = DecisionResult & { readonly outboxId: string }

function decisionOf({ decision }: GivenFlags): HoldDecision {
  const chosen = DECISIONS.find((word) => word.toLowerCase() === decision)
  if (chosen === undefined) throw new InvalidArgumentError('--decision', 'expected dispatched, failed or retry')
  return chosen
}

const DECISIONS: readonly HoldDecision[] = ['DISPATCHED', 'FAILED', 'RETRY']

async function requiredItem(control: RoleHandle, outboxId: string): Promise<ItemStatus> {
  const [item] = await readItems(control, { outboxId })
  if (item === undefined) throw new SymphonyError('ITEM_NOT_FOUND', `There is no outbox item with the id ${outboxId}.`)
  return item
}
